"""Damaged and misplaced checkpoints are passed over or refused, by name and with exit code 1."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import veldt
from veldt.cli import main


def checkpoints(run: Path) -> list[Path]:
    return sorted((run / "checkpoints").iterdir())


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def alter(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


DAMAGE = {"truncated": truncate, "altered": alter, "missing": Path.unlink}


@pytest.mark.parametrize("verb", ["resume", "evaluate"])
@pytest.mark.parametrize("how", DAMAGE)
def test_a_run_without_a_whole_checkpoint_is_refused(how: str, verb: str, refused: Any, run: Path) -> None:
    for checkpoint in checkpoints(run):
        DAMAGE[how](checkpoint / "weights.safetensors")
    said = refused(verb, str(run), code=1)
    assert said.startswith("there is no checkpoint to load: none of the 2 checkpoints in ")
    assert f"{checkpoints(run)[-1] / 'weights.safetensors'}" in said and how in said


@pytest.mark.parametrize("name", ["weights.safetensors", "optimiser.safetensors", "manifest.json"])
def test_an_older_checkpoint_replaces_a_damaged_one(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older, newest = checkpoints(run)
    truncate(newest / name)
    main(["evaluate", str(run), "--episodes", "2", "--json"])
    shown = capsys.readouterr()
    assert json.loads(shown.out)["checkpoint_step"] == int(older.name.removeprefix("step-"))
    assert str(newest / name) in shown.err


@pytest.mark.parametrize("verb", ["resume", "evaluate"])
def test_a_checkpoint_of_another_recipe_is_refused(
    verb: str, refused: Any, run: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "env": "CartPole-v1",
        "quiet": True,
        "hidden": (8,),
        "env_backend": "in-process",
    }
    other = veldt.train("a2c", run_dir=tmp_path / "a2c", steps=1000, num_envs=4, **settings)
    *_, misplaced = checkpoints(other.path)
    shutil.copytree(misplaced, run / "checkpoints" / misplaced.name)
    said = refused(verb, str(run), code=1)
    assert "was written by recipe 'a2c', and this run's is 'ppo'" in said and misplaced.name in said


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"resolved": {}}', '{"resolved": 3}'])
def test_a_damaged_configuration(text: str, refused: Any, run: Path) -> None:
    (run / "config.json").write_text(text)
    with pytest.raises(veldt.VeldtError) as caught:
        veldt.load(run)
    assert refused("resume", str(run), code=caught.value.exit_code) == str(caught.value)
    if text != '{"resolved": {}}':  # settings that are missing have sentences of their own
        assert "; restore it from a copy: the checkpoints beside it are as they were" in str(caught.value)


@pytest.mark.parametrize(
    ("section", "values", "said"),
    [
        (
            "network",
            {"layer_norm": True},
            "do not fit this network: torso.norms.0.weight is missing; the network's code",
        ),
        (
            "recipe",
            "a2c",
            "from another run (then remove it), or config.json was changed (then change it back)",
        ),
    ],
)
def test_a_configuration_that_is_not_that_of_the_checkpoint(
    section: str, values: Any, said: str, refused: Any, run: Path
) -> None:
    config = json.loads((run / "config.json").read_text())
    resolved = config["resolved"]
    resolved[section] = {**resolved[section], **values} if isinstance(values, dict) else values
    (run / "config.json").write_text(json.dumps(config))
    assert said in refused("evaluate", str(run), code=1)


def test_an_environment_of_other_shapes(refused: Any, run: Path) -> None:
    """Another resume would fail in the same way, so none is proposed."""
    said = refused("resume", str(run), "--env", "Acrobot-v1", "--steps", "9000", code=1)
    assert "has shape (8, 4), expected (8, 6)" in said
    assert said.endswith(
        "the environment's observations or actions have other shapes than those that the run began with"
    )


@pytest.mark.parametrize(
    ("section", "values"), [("run", {"step": 5}), ("run", 5), ("replay", {"buffer_size": 5}), ("envs", ["x"])]
)
def test_given_settings_that_the_run_does_not_have(
    section: str, values: Any, refused: Any, run: Path
) -> None:
    config = json.loads((run / "config.json").read_text())
    config["given"][section] = values
    (run / "config.json").write_text(json.dumps(config))
    for verb in ("resume", "reproduce"):
        said = refused(verb, str(run), code=1)
        assert (
            f"the section '{section}' with the value {values}, which the run does not have as settings"
            in said
        )


def test_an_env_is_reproduced_with_its_keyword_arguments(tmp_path: Path) -> None:
    """Their names are those of no settings."""
    settings: dict[str, Any] = {"env": "Acrobot-v1", "env_kwargs": {"render_mode": None}, "quiet": True}
    run = veldt.train("a2c", run_dir=tmp_path / "run", steps=64, env_backend="in-process", **settings)
    again = veldt.reproduce(run.path, run_dir=tmp_path / "again", quiet=True)
    assert again.difference is None


def test_a_run_that_is_being_trained(refused: Any, run: Path) -> None:
    from veldt.runs.directory import RunDirectory

    with RunDirectory.open(run).lock():
        assert "is being trained by process" in refused("resume", str(run))
        # Whoever trains in it is just replacing its checkpoints: they are not looked at before that is known.
        for checkpoint in checkpoints(run):
            shutil.rmtree(checkpoint)
        assert "is being trained by process" in refused("resume", str(run))


def test_a_setting_that_cannot_change(run: Path) -> None:
    with pytest.raises(veldt.UsageError, match="--seed cannot change when a run is resumed"):
        veldt.resume(run, seed=3)
