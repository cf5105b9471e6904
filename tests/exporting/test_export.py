"""An export has the files of a model repository, replaces only an export, as a whole, and can be loaded again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.numpy import load_file

import veldt
from run_state import SMALL
from veldt.cli import main
from veldt.exporting import graph_files, write
from veldt.runs.export_files import new_export
from veldt.runtime.orphans import own_mark
from veldt.runtime.process_state import start_of
from veldt.user_code import trusted

QUICK: dict[str, Any] = {"video": False, "episodes": 2}
SETTINGS: dict[str, Any] = SMALL | {"steps": 128, "env_backend": "in-process", "quiet": True}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "run"
    return veldt.train("ppo", env="Pendulum-v1", normalise_observations=True, run_dir=path, **SETTINGS).path


@pytest.fixture
def run(stored: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stored, tmp_path / "run"))


def metadata(card: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(card.split("---\n")[1])
    return values


def test_the_files_and_the_card(run: Path, tmp_path: Path) -> None:
    made = veldt.export(run, out=tmp_path / "out", seed=3, greedy=True, **QUICK)
    assert (
        sorted(os.listdir(made.path))
        == sorted(made.files)
        == ["README.md", "config.json", "model.safetensors"]
    )
    card = (made.path / "README.md").read_text()
    values = metadata(card)
    (result,) = values["model-index"][0]["results"]
    evaluated = veldt.evaluate(made.path, episodes=2, seed=3, greedy=True)
    assert values["library_name"] == "veldt" and {"ppo", "Pendulum-v1"} <= set(values["tags"])
    assert result["metrics"][0]["value"].startswith(f"{evaluated.mean:.2f} +/- ")
    assert "veldt evaluate DIRECTORY --protocol episodes --episodes 2 --seed 3 --greedy" in card
    assert "veldt train ppo --env Pendulum-v1 " in card and "--normalise-observations" in card
    assert (
        "`observation_normaliser.fields.0.mean`" in card
        and "There is no `replay.mp4`: it was left out." in card
    )
    config, weights = (
        json.loads((made.path / "config.json").read_text()),
        load_file(made.path / "model.safetensors"),
    )
    place = config["normalised"][""]
    np.testing.assert_array_equal(weights[f"{place}.mean"], np.float64(weights[f"{place}.mean"]))
    assert config["evaluation"]["scores"] == pytest.approx(evaluated.scores)


def test_an_export_is_loaded_without_the_run(run: Path, tmp_path: Path) -> None:
    before = veldt.load(run)
    made = veldt.export(run, out=tmp_path / "out", **QUICK)
    shutil.rmtree(run)
    after = veldt.load(str(made.path))
    observation = np.array([0.5, -0.5, 2.0], np.float32)
    assert after.step == before.step
    assert after.act(observation, greedy=True) == before.act(observation, greedy=True)
    assert after.value(observation) == before.value(observation)


def test_the_training_command_of_the_card_trains_the_same(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = veldt.export(run, **QUICK)
    command = (made.path / "README.md").read_text().split("```sh\nveldt train ")[1].split("\n")[0]
    monkeypatch.chdir(tmp_path)
    main(["train", *command.split(), "--run-dir", "again"])
    observation = np.array([0.5, -0.5, 2.0], np.float32)
    assert veldt.load("again").value(observation) == veldt.load(run).value(observation)


def test_an_export_is_replaced_as_a_whole(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = veldt.export(run, torch_export=True, **QUICK)
    assert "policy.pt2" in made.files

    def broken(*_: Any) -> str:
        raise RuntimeError("the card broke")

    with monkeypatch.context() as patched:
        patched.setattr(write, "model_card", broken)
        with pytest.raises(RuntimeError, match="the card broke"):
            veldt.export(run, **QUICK)
    assert sorted(os.listdir(made.path)) == sorted(made.files)
    again = veldt.export(run, **QUICK)
    assert again.path == made.path and "policy.pt2" not in os.listdir(made.path)
    assert not [name for name in os.listdir(run) if name.startswith(".")]


KILLED = """
import os, signal, sys
from pathlib import Path
from veldt.runs.export_files import new_export
with new_export(Path(sys.argv[1])) as folder:
    (folder / "model.safetensors").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says which process has ended")
def test_what_a_killed_export_has_left_is_removed_by_the_next(run: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    subprocess.run([sys.executable, "-c", KILLED, str(place / "out")], check=False)
    (partial,) = os.listdir(place)
    old = partial.replace(".partial", ".old")
    _, machine, _, _ = own_mark().split(".")
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    alive = f"veldt.{machine}.{other.pid}.{start_of(other.pid)}"
    kept = [f".out.{alive}.partial", f".out.{alive}.old", partial.replace("out", "other"), f"{partial}.txt"]
    for name in (old, *kept):
        (place / name).mkdir()
        (place / name / "model.safetensors").write_bytes(b"half")
    file = f".out.veldt.{machine}.{os.getpid()}.1.partial"  # no process began then
    (place / file).write_text("not a directory")
    kept.append(file)
    with pytest.raises(RuntimeError), new_export(place / "out"):
        raise RuntimeError("it broke")
    assert sorted(os.listdir(place)) == sorted([old, *kept]), (
        "it may be the only whole export until there is another"
    )
    veldt.export(run, out=place / "out", **QUICK)
    other.communicate(b"\n")
    assert sorted(os.listdir(place)) == sorted(["out", *kept])


def test_what_export_did_not_write_stays(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for place, why in {
        run: "veldt export did not write it",
        tmp_path / "mine": "veldt export did not write it: name a new directory$",  # not: remove it
        tmp_path / "missing" / "out": "there is no directory",
        Path(): "give the name of a directory",
    }.items():
        with pytest.raises(veldt.UsageError, match=why):
            veldt.export(run, out=place, **QUICK)
    made = veldt.export(run, **QUICK)
    (made.path / "notes.txt").write_text("mine")
    with pytest.raises(veldt.UsageError, match=r"has notes\.txt in it, which veldt export did not write"):
        veldt.export(run, **QUICK)
    (tmp_path / "link").symlink_to(made.path)
    with pytest.raises(veldt.UsageError, match="is a symbolic link"):
        veldt.export(run, out=tmp_path / "link", **QUICK)
    assert (made.path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("verb", ["resume", "reproduce", "watch", "report", "export"])
def test_other_verbs_say_that_an_export_is_no_run(
    verb: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = veldt.export(run, **QUICK)
    with pytest.raises(SystemExit):
        main([verb, str(made.path)])
    said = capsys.readouterr().err
    assert "is an export, the policy of a run without the run" in said and said.count("\n") == 1
    assert sorted(os.listdir(made.path)) == sorted(made.files)


def test_a_full_disk_is_one_sentence(
    run: Path, small_disk: Callable[[int], AbstractContextManager[Path]]
) -> None:
    with small_disk(2048) as place:
        with pytest.raises(
            veldt.VeldtError, match=r"cannot write the export .*the disk is full.*then export again"
        ):
            veldt.export(run, out=place / "out", **QUICK)
        assert os.listdir(place) == []


def test_a_run_without_a_checkpoint_is_one_sentence(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(veldt.CheckpointError, match="there is no checkpoint to load"):
        veldt.export(run, **QUICK)
    assert not (run / "export").exists()


def test_a_missing_package_is_named_with_its_command(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_files.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(veldt.UsageError, match=r"\(onnx, .*\): pip install 'veldt\[onnx\]'$"):
        veldt.export(run, onnx=True, **QUICK)


def test_an_environment_that_cannot_be_drawn(tmp_path: Path) -> None:
    path = veldt.train("ppo", env="environments:scripted", run_dir=tmp_path / "run", **SETTINGS).path
    made = veldt.export(path, episodes=1)
    card = (made.path / "README.md").read_text()
    assert made.no_video is not None and "cannot be rendered" in made.no_video
    assert f"There is no `replay.mp4`: {made.no_video}" in card
    assert "The environment is code that is not among these files, `environments:scripted`" in card


def test_a_network_of_the_users_own_is_named_for_the_loader(tmp_path: Path) -> None:
    def network(shape: Any) -> torch.nn.Module:
        return torch.nn.Linear(shape[0], 8)

    settings = {name: value for name, value in SETTINGS.items() if name != "hidden"}
    path = veldt.train("ppo", env="CartPole-v1", network=network, run_dir=tmp_path / "run", **settings).path
    with pytest.raises(veldt.UsageError, match=r"pass it again, export\(run, network=\.\.\.\)"):
        veldt.export(path, **QUICK)
    made = veldt.export(path, network=network, **QUICK)
    card = (made.path / "README.md").read_text()
    assert "The network is code that is not among these files" in card
    assert 'veldt.load("DIRECTORY", network=...)' in card
    with pytest.raises(veldt.UsageError, match=r"pass it again, load\(run, network=\.\.\.\)"):
        veldt.load(made.path)
    observation = np.zeros(4, np.float32)
    after, before = veldt.load(made.path, network=network), veldt.load(path, network=network)
    assert after.value(observation) == before.value(observation)


def test_a_plug_in_is_named_with_its_package(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.loads((run / "config.json").read_text())
    config["resolved"]["plugins"] = ["colorsys", "this_file"]
    (run / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("veldt.exporting.card.plugin_distributions", {"colorsys": "veldt-colours"})
    monkeypatch.setitem(sys.modules, "this_file", sys.modules[__name__])
    card = (veldt.export(run, episodes=1, video=False, trust=True).path / "README.md").read_text()
    assert "It needs the plug-in `colorsys` of the package `veldt-colours`, which veldt finds where" in card
    assert "It needs the plug-in `this_file` (`--plugin`, or an import of it before `veldt.load`)." in card


def test_the_video(run: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    made = veldt.export(run, episodes=1)
    assert made.no_video is None and (made.path / "replay.mp4").stat().st_size > 1000


def damage(export: Path, change: Callable[[dict[str, Any]], None]) -> None:
    config = json.loads((export / "config.json").read_text())
    change(config)
    (export / "config.json").write_text(json.dumps(config))


def test_damaged_exports_are_one_sentence(run: Path) -> None:
    made = veldt.export(run, **QUICK)
    weights = made.path / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(veldt.CheckpointError, match=r"is truncated.*git lfs pull"):
        veldt.load(made.path)
    weights.unlink()
    with pytest.raises(veldt.CheckpointError, match="is missing: download the whole repository"):
        veldt.load(made.path)
    weights.write_bytes(whole)
    with pytest.raises(veldt.UsageError, match="--best is about a run's checkpoints"):
        veldt.load(made.path, best=True)
    damage(made.path, lambda config: config["settings"]["network"].update(hidden=[4]))
    with pytest.raises(veldt.CheckpointError, match="does not hold the weights of its network"):
        veldt.load(made.path)
    damage(made.path, lambda config: config.update(step="x"))
    with pytest.raises(veldt.CheckpointError, match="is not as veldt export wrote it"):
        veldt.load(made.path)
    damage(made.path, lambda config: config.update(veldt_export=2))
    with pytest.raises(veldt.CheckpointError, match="was written by a newer veldt"):
        veldt.load(made.path)


def test_code_in_an_export_of_somebody_else_is_not_imported(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = veldt.export(run, **QUICK)
    (tmp_path / "evil.py").write_text("open('pwned', 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(trusted, "_of_this_process", set())
    damage(made.path, lambda config: config["settings"]["network"].update(network="evil:network"))
    for call in (veldt.load, veldt.evaluate):
        with pytest.raises(veldt.UsageError, match="you have not trained with it on this machine"):
            call(made.path)
    assert not Path("pwned").exists()


def test_the_command_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    main(["export", str(run), "--out", str(out), "--torch-export", "--episodes", "1", "--no-video"])
    said = capsys.readouterr().out
    assert f"{out}: README.md, model.safetensors, config.json, policy.pt2; raw return " in said
    assert "policy.pt2: at most " in said and "no video" not in said
    main(["evaluate", str(out), "--episodes", "1"])
    assert f"{out} at step" in capsys.readouterr().out
