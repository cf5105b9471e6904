"""A run from somebody else imports no code that it names; a run of the user's own needs no flag."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import veldt
from veldt.cli import main
from veldt.user_code import trusted

COMMAND = {"env": "os:system", "env_kwargs": {"command": "touch pwned"}}
VERBS = ["evaluate", "resume", "reproduce", "watch", "record-starts", "record-starts --play"]
PWN = "open('pwned', 'w')\n"
MODULE = """
import gymnasium

def make(max_episode_steps=30, render_mode=None):
    return gymnasium.make("CartPole-v1", max_episode_steps=max_episode_steps, render_mode=render_mode)

def network(shape):
    import torch
    return torch.nn.Linear(shape[0], 8)
"""
SMALL = "--num-envs 4 --batch-size 64 --minibatches 2 --steps 64 --env-backend in-process"


@pytest.fixture(autouse=True)
def fresh(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[pytest.MonkeyPatch]:
    """Each test runs in its own directory, as a user whose record of trusted code is empty."""
    modules = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(trusted, "_of_this_process", set())
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    yield monkeypatch
    for name in {"mine", "helper", "evilnet", "pack", "pack.sub"} & set(sys.modules) - modules:
        del sys.modules[name]


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets the code that this process has trained with, as a new process would."""
    monkeypatch.setattr(trusted, "_of_this_process", set())
    sys.modules.pop("mine", None)
    sys.path[:] = [entry for entry in sys.path if entry != os.getcwd()]


def name_in(run: Path, network: str | None = None, **values: Any) -> None:
    """Changes config.json, as the sender of a run could."""
    file = run / "config.json"
    config = json.loads(file.read_text())
    config["resolved"].update(values)
    if network is not None:
        config["resolved"]["network"]["network"] = network
    file.write_text(json.dumps(config))


def lines() -> list[dict[str, Any]]:
    file = Path(os.environ["XDG_STATE_HOME"], "veldt", "trusted.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with a user's own environment and network, in the working directory."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "mine.py").write_text(MODULE)
    monkeypatch.chdir(project)
    kwargs = ["--env-kwargs", '{"max_episode_steps": 20}']
    main(f"train ppo --env mine:make --network mine:network --run-dir run {SMALL}".split() + kwargs)
    forget(monkeypatch)
    return project / "run"


@pytest.mark.parametrize("verb", VERBS)
def test_a_command_is_not_run(verb: str, run: Path, refused: Any) -> None:
    name_in(run, **COMMAND)
    said = refused(*verb.split(), str(run))
    assert not Path("pwned").exists()
    assert said == (
        f'{run} names the environment os:system (env_kwargs {{"command": "touch pwned"}}), imported from '
        f"{os.path.realpath(os.__file__)}: this is code, and you have not trained with it on this machine; add --trust "
        'if you trust the run, or name it yourself with --env os:system (in Python trust=True, or env="os:system")'
    )


@pytest.mark.parametrize("call", [veldt.load, veldt.resume, veldt.evaluate, veldt.record_starts])
def test_a_command_is_not_run_from_python_either(call: Any, run: Path) -> None:
    name_in(run, **COMMAND)
    with pytest.raises(veldt.UsageError, match="you have not trained with it on this machine"):
        call(run)
    assert not Path("pwned").exists()


@pytest.mark.parametrize("verb", VERBS[:-1])
def test_a_network_in_the_run_is_not_imported(
    verb: str, run: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "evilnet.py").write_text(PWN + "make = print")
    name_in(run, network="evilnet:make")
    monkeypatch.chdir(run)
    said = refused(verb, ".")
    assert not (run / "pwned").exists()
    assert f". names the network evilnet:make, imported from {run.resolve() / 'evilnet.py'}: this is" in said


def test_a_package_is_not_imported_to_find_its_module(run: Path, refused: Any) -> None:
    Path("pack").mkdir()
    Path("pack/__init__.py").write_text(PWN)
    Path("pack/sub.py").write_text("make = print")
    here = Path.cwd().resolve() / "pack"
    name_in(run, env="pack.sub:make")
    said = refused("evaluate", str(run))
    assert f"pack.sub:make, imported from {here / '__init__.py'} and {here / 'sub.py'}: this is code" in said
    name_in(run, env="pack.other:make")
    assert "there is no module 'pack.other'" in refused("evaluate", str(run))
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    "values",
    [
        {"env": "mine:Id-v0"},
        {"env": "GymV26Environment-v0", "env_kwargs": {"env_id": "mine:Id-v0"}},
        {"env": "__main__:main", "env_kwargs": {"argv": ["--version"]}},
    ],
)
def test_other_names_that_lead_to_imports_are_refused(
    values: Any, run: Path, refused: Any, monkeypatch: Any
) -> None:
    Path("mine.py").write_text(PWN)
    monkeypatch.setattr(sys.modules["__main__"], "main", main, raising=False)
    name_in(run, **values)
    assert "this is code" in refused("evaluate", str(run))
    assert not Path("pwned").exists()


def test_a_registered_id_that_the_user_names_does_not_bring_the_import_of_its_arguments(
    run: Path, refused: Any
) -> None:
    """The name is the user's, the keyword arguments are still the run's: only --trust accepts these."""
    Path("mine.py").write_text(PWN)
    name_in(run, env="GymV26Environment-v0", env_kwargs={"env_id": "mine:Id-v0"})
    for arguments in ([], ["--env", "GymV26Environment-v0"]):
        said = refused("evaluate", str(run), *arguments)
        assert "this is code" in said and "mine.py" in said and "name it yourself" not in said
    assert not Path("pwned").exists()


def test_registered_ids_need_no_trust(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gymnasium.register("OfThisProcess-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
    try:
        name_in(run, env="OfThisProcess-v0", env_kwargs={"max_episode_steps": 7})
        assert max(veldt.evaluate(run, episodes=3).lengths) == 7
    finally:
        del gymnasium.registry["OfThisProcess-v0"]
    with pytest.raises(veldt.UsageError, match="no environment 'OfThisProcess-v0'"):
        veldt.evaluate(run, episodes=3)


def test_files_in_the_run_do_not_stand_in_for_modules(run: Path) -> None:
    """Not even for those of `multiprocessing`, whose servers start in the working directory."""
    for name in ("multiprocessing", "selectors", "tempfile", "gymnasium"):
        (run / f"{name}.py").write_text(PWN)
    config = json.loads((run / "config.json").read_text())
    config["resolved"]["envs"] |= {"env_backend": "workers", "processes": 1}
    (run / "config.json").write_text(json.dumps(config))
    command = [str(Path(sys.executable).with_name("veldt")), "evaluate", ".", "--episodes", "1"]
    done = subprocess.run(command, cwd=run, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (run / "pwned").exists()


def test_files_in_the_run_do_not_replace_modules_that_other_code_imports(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "mine.py").write_text(MODULE + "try:\n    import helper\nexcept ImportError:\n    pass\n")
    (run / "helper.py").write_text(PWN)
    monkeypatch.chdir(run)
    sys.path.append(str(library))
    assert veldt.load(run, env="mine:make").act([0.0, 0.1, 0.0, 0.1]) in (0, 1)
    assert not (run / "pwned").exists()


def test_code_that_the_user_names_is_imported(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run's keyword arguments belong to the environment that the run names."""
    Path("mine.py").write_text(MODULE)
    name_in(run, env="mine:make", env_kwargs={"max_episode_steps": 7})
    assert max(veldt.evaluate(run, episodes=3, env="mine:make").lengths) == 7
    main(["evaluate", str(run), "--env", "mine:make", "--episodes", "3"])
    assert "mean length 7 steps" in capsys.readouterr().out
    agent = veldt.load(run, env="CartPole-v1")
    assert (agent.source.name, dict(agent.source.kwargs)) == ("CartPole-v1", {})
    assert (agent.config.env, agent.config.env_kwargs) == ("CartPole-v1", {})
    main(["record-starts", str(run), "--env", "mine:make", "--starts", "2"])
    assert "2 starts of mine:make" in capsys.readouterr().out
    assert lines() == []  # only training makes code the user's own
    with pytest.raises(veldt.UsageError, match="an agent has its environment and its network already"):
        veldt.evaluate(agent, trust=True)


def test_a_trusted_run(mine: Path, refused: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(os.environ["XDG_STATE_HOME"])
    said = refused("evaluate", str(mine))
    file = mine.resolve().parent / "mine.py"
    assert (
        f'the environment mine:make (env_kwargs {{"max_episode_steps": 20}}), imported from {file}; and '
        in said
    )
    assert "with --env mine:make --network mine:network (in" in said
    assert veldt.load(mine, trust=True).act([0.0, 0.1, 0.0, 0.1]) in (0, 1)
    main(["evaluate", str(mine), "--trust", "--episodes", "2"])
    assert "2 episodes, raw return" in capsys.readouterr().out
    main(["evaluate", str(mine), "--trust", "--episodes", "1"])
    assert ": 1 episode, raw return" in capsys.readouterr().out
    assert "the network mine:network" in refused("evaluate", str(mine), "--env", "mine:make")
    assert "the environment mine:make" in refused("evaluate", str(mine), "--network", "mine:network")
    assert lines() == []
    main(["resume", str(mine), "--steps", "128", "--trust"])
    main(["evaluate", str(mine), "--episodes", "2"])
    assert [line["kind"] for line in lines()] == ["env", "network"]


def test_a_resume_with_code_that_the_user_names(mine: Path) -> None:
    shutil.rmtree(os.environ["XDG_STATE_HOME"])
    main(f"resume {mine} --env mine:make --network mine:network --steps 128".split())
    veldt.evaluate(mine, episodes=1)
    assert [line["name"] for line in lines()] == ["mine:make", "mine:network"]


def test_a_run_of_the_user_needs_no_trust(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["evaluate", "run", "--episodes", "2"])
    forget(monkeypatch)
    moved = mine.rename(tmp_path / "moved")
    main(["resume", str(moved), "--steps", "128"])
    forget(monkeypatch)
    monkeypatch.chdir(tmp_path)
    sys.path.append(str(tmp_path / "project"))  # where it is installed
    assert veldt.load(moved).act([0.0, 0.1, 0.0, 0.1]) in (0, 1)
    assert len(lines()) == 2


@pytest.mark.parametrize("linked", [False, True])
def test_another_file_of_the_same_name_is_refused(
    linked: bool, mine: Path, tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a link to the same file: the run could put modules that it imports beside the link."""
    monkeypatch.chdir(tmp_path)
    if linked:
        Path("mine.py").symlink_to(tmp_path / "project" / "mine.py")
    else:
        Path("mine.py").write_text(PWN + MODULE)
    assert f"imported from {tmp_path.resolve() / 'mine.py'}" in refused("evaluate", str(mine))
    assert not Path("pwned").exists()


def test_other_keyword_arguments_are_refused(mine: Path, refused: Any) -> None:
    name_in(mine, env_kwargs={"max_episode_steps": 21})
    assert 'mine:make (env_kwargs {"max_episode_steps": 21})' in refused("evaluate", str(mine))


def test_callables_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MODULE)
    sys.path.append(str(tmp_path))
    import mine  # type: ignore[import-not-found]

    small = {"num_envs": 4, "batch_size": 64, "minibatches": 2, "steps": 64, "env_backend": "in-process"}
    veldt.train("ppo", env=mine.make, network=mine.network, run_dir="run", quiet=True, **small)
    forget(monkeypatch)
    assert veldt.load("run").act([0.0, 0.1, 0.0, 0.1]) in (0, 1)


def test_only_the_user_can_read_the_record_of_trusted_code(mine: Path) -> None:
    folder = Path(os.environ["XDG_STATE_HOME"], "veldt")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "trusted.jsonl").stat().st_mode & 0o777 == 0o600
    assert lines() == [
        {
            "kind": "env",
            "name": "mine:make",
            "kwargs": '{"max_episode_steps": 20}',
            "files": [str(mine.resolve().parent / "mine.py")],
        },
        {
            "kind": "network",
            "name": "mine:network",
            "kwargs": "{}",
            "files": [str(mine.resolve().parent / "mine.py")],
        },
    ]


def test_damaged_lines_of_the_record_are_skipped(
    mine: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damaged lines are skipped, and the other lines are read."""
    file = Path(os.environ["XDG_STATE_HOME"], "veldt", "trusted.jsonl")
    env, network = file.read_text().splitlines()
    file.write_text(f'{env}\n[1]\n{{"kind": "network"}}\n\0\0\n{{"kind": []}}\n{network[:-9]}')
    assert "names the network mine:network" in refused("evaluate", "run")
    main(["resume", "run", "--steps", "128", "--trust"])
    forget(monkeypatch)
    main(["evaluate", "run", "--episodes", "2"])
    assert file.read_text().splitlines()[-1] == network


def test_an_unwritable_record_is_a_warning(
    mine: Path, tmp_path: Path, refused: Any, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    main(f"train ppo --env mine:make --run-dir other {SMALL}".split())
    said = capsys.readouterr().err
    assert said.count("cannot write down that mine:make is your own code (") == 1
    assert "need --trust" in said
    veldt.evaluate("other", episodes=1)  # this process knows
    forget(monkeypatch)
    assert "names the environment mine:make" in refused("evaluate", "other")


def test_a_user_without_a_home_directory(run: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.setattr(Path, "home", homeless)
    name_in(run, **COMMAND)
    assert "this is code" in refused("evaluate", str(run))


def test_a_report_imports_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name_in(run, network="evilnet:make", **COMMAND)
    Path("evilnet.py").write_text(PWN)
    main(["report", str(run)])
    assert not Path("pwned").exists()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("verb", "name", "code"),
    [
        ("report", "summary.json", 2),
        ("report", "metrics.jsonl", 2),
        ("report", "events.jsonl", 2),
        ("report", "episodes.jsonl", 2),
        ("report", "lock", None),
        ("watch --episode 0", "episodes.jsonl", 2),
        ("watch --episode 0", "actions.bin", 1),
    ],
)
def test_a_named_pipe_as_a_file_of_a_run_does_not_block(
    verb: str, name: str, code: int | None, run: Path, refused: Any
) -> None:
    if verb.startswith("watch"):
        pytest.importorskip("imageio_ffmpeg")
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    if code is None:
        main([*verb.split(), str(run)])
    else:
        said = refused(*verb.split(), str(run), code=code)
        assert str(run / name) in said and "it is not a regular file" in said


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["manifest.json", "weights.safetensors"])
def test_a_named_pipe_in_a_checkpoint_does_not_block(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max((run / "checkpoints").iterdir())
    (newest / name).unlink()
    os.mkfifo(newest / name)
    main(["evaluate", str(run), "--episodes", "1"])
    shown = capsys.readouterr()
    assert f"{newest / name} " in shown.err and ": 1 episode" in shown.out


def test_a_checkpoint_that_is_a_link_to_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "checkpoints" / "step-999999999999").symlink_to("nowhere")
    main(["evaluate", str(run), "--episodes", "1"])
    assert "step-999999999999/manifest.json cannot be read" in capsys.readouterr().err
