"""A finished run is trained again with its resolved plan, and the two are compared."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import veldt
from veldt.api.causes import likely_cause
from veldt.cli import main
from veldt.config.plan_digest import plan_digest
from veldt.config.run_code import Admitted
from veldt.config.stored_config import from_dict
from veldt.envs.source import resolve
from veldt.networks.own import OwnParts
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runs.difference import first_difference
from veldt.runs.directory import RunDirectory

SMALL: dict[str, Any] = {
    "steps": 512,
    "num_envs": 4,
    "batch_size": 128,
    "minibatches": 2,
    "epochs": 2,
    "hidden": (16,),
    "seed": 3,
    "quiet": True,
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reproduce") / "run"
    return veldt.train(
        "ppo", env="CartPole-v1", run_dir=path, env_backend="workers", processes=2, **SMALL
    ).path


def digest(path: Path) -> str:
    found: str = json.loads((path / "summary.json").read_text())["plan_digest"]
    return found


def test_the_same_plan_gives_the_same_results(original: Path, tmp_path: Path) -> None:
    """Also those that the first call left to be chosen."""
    result = veldt.reproduce(original, run_dir=tmp_path / "again", quiet=True)
    assert (result.difference, result.cause, result.is_repeatable) == (None, None, True)
    assert digest(result.run.path) == digest(original)
    before, after = (json.loads((path / "config.json").read_text()) for path in (original, result.run.path))
    assert before["resolved"] == after["resolved"] and before["given"] == after["given"]


def test_another_plan_has_another_digest(original: Path, tmp_path: Path) -> None:
    run = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", env_backend="in-process", **SMALL)
    assert digest(run.path) != digest(original)


def test_only_what_decides_the_results_is_in_the_digest() -> None:
    config = find("ppo").config("CartPole-v1")
    for name, value, is_same in [
        ("log_every", 9.0, True),
        ("checkpoint_every", 77, True),
        ("steps", 77, False),
        ("seed", 77, False),
        ("threads", 2, False),
        ("gamma", 0.5, False),
    ]:
        assert (plan_digest(with_settings(config, {name: value})) == plan_digest(config)) is is_same, name
    assert plan_digest(dataclasses.replace(config, env="Acrobot-v1")) != plan_digest(config)


def test_the_first_difference_is_named(original: Path, tmp_path: Path) -> None:
    other = veldt.train(
        "ppo", env="CartPole-v1", run_dir=tmp_path / "run", **{**SMALL, "learning_rate": 1e-3}
    )
    text = first_difference(original, other.path)
    assert text is not None and "in the other run" in text
    assert first_difference(original, original) is None


def test_the_command_says_whether_the_results_are_the_same(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["reproduce", str(original), "--run-dir", str(tmp_path / "again")])
    said = capsys.readouterr()
    assert f"{tmp_path / 'again'} has the same results as {original}, bit for bit" in said.out
    assert f" (as in {original})" in said.err, "nothing was asked for now"


def test_a_run_that_was_changed_is_reported(original: Path, tmp_path: Path) -> None:
    """The settings in config.json are not those that the run was trained with."""
    changed = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", **SMALL).path
    config = json.loads((changed / "config.json").read_text())
    config["resolved"]["learn"]["learning_rate"] = 1e-4
    config["versions"]["torch"] = "1.0"
    (changed / "config.json").write_text(json.dumps(config))
    result = veldt.reproduce(changed, run_dir=tmp_path / "again", quiet=True)
    assert result.difference is not None
    assert result.cause is not None and result.cause.startswith("torch was 1.0 and is ")


def test_an_unfinished_run_is_refused(original: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text((original / "config.json").read_text())
    with pytest.raises(veldt.UsageError, match=r"has not finished: `veldt resume .*run` finishes it"):
        veldt.reproduce(tmp_path / "run")
    with pytest.raises(veldt.UsageError, match="is not a veldt run"):
        veldt.reproduce(tmp_path / "none")


def test_a_run_without_a_checkpoint_is_refused_before_it_is_trained(original: Path, tmp_path: Path) -> None:
    shutil.copytree(original, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    with pytest.raises(veldt.CheckpointError):
        veldt.reproduce(tmp_path / "run", run_dir=tmp_path / "again", quiet=True)
    assert not (tmp_path / "again").exists()


def test_another_environment_is_the_cause(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", str(original), "--env", "Acrobot-v1", "--run-dir", str(tmp_path / "again")])
    said = capsys.readouterr()
    assert said.err.rstrip().endswith("; the environment was CartPole-v1 and is Acrobot-v1")


def test_a_resume_with_other_steps_is_the_cause(tmp_path: Path) -> None:
    """PPO's learning rate falls over the steps of the run, whatever their number was."""
    settings = {**SMALL, "steps": 256, "learning_rate": "linear:1e-3:0"}
    run = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", **settings).path
    veldt.resume(run, steps=512, quiet=True)
    result = veldt.reproduce(run, run_dir=tmp_path / "again", quiet=True)
    assert result.difference is not None
    assert (
        result.cause
        == "--steps was 256, then 512 (the run was resumed), and --learning-rate changed over these steps"
    )


def test_another_processor_is_the_cause(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is known before training, and said then."""
    shutil.copytree(original, tmp_path / "run")
    change(
        tmp_path / "run" / "config.json", lambda config: config["hardware"].update(instruction_set="OTHER")
    )
    result = veldt.reproduce(tmp_path / "run", run_dir=tmp_path / "again")
    assert str(result.cause).startswith("the processor's instruction set was OTHER and is ")
    assert (
        f"the results may differ from those of {tmp_path / 'run'}: the processor's" in capsys.readouterr().err
    )


def test_a_new_run_that_a_callback_stops_is_the_cause(original: Path, tmp_path: Path) -> None:
    class Stop(veldt.Callback):
        def on_rollout(self, context: veldt.CallbackContext) -> None:
            context.stop("enough")

    result = veldt.reproduce(original, run_dir=tmp_path / "again", quiet=True, callbacks=[Stop()])
    assert result.difference is not None
    assert result.cause is not None and result.cause.endswith(" (callback)")


def test_an_interrupted_run_is_not_compared(original: Path, tmp_path: Path) -> None:
    class Interrupt(veldt.Callback):
        def on_rollout(self, context: veldt.CallbackContext) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as interrupted:
        veldt.reproduce(original, run_dir=tmp_path / "again", quiet=True, callbacks=[Interrupt()])
    (said,) = interrupted.value.__notes__
    assert said.startswith(f"{tmp_path / 'again'} was stopped at step ")
    assert said.endswith(f", and nothing was compared with {original}")


def cause_of(run: Path, **other: Any) -> str | None:
    """What is known of a run before it would be trained again with `other` parts of the network."""
    directory = RunDirectory.open(run)
    stored, summary = directory.read_config(), directory.read_summary()
    assert summary is not None
    config = from_dict(stored["resolved"])
    code = Admitted(config, resolve(config.env), OwnParts(**other))
    return likely_cause(directory, stored, summary, config, code)


def test_what_is_known_to_be_other_than_it_was_is_named(original: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(original, run)
    assert cause_of(run) is None
    assert str(cause_of(run, network=change)).startswith("--network was auto and is ")
    change(run / "config.json", lambda config: config["resolved"]["learn"].update(learning_rate=0.5))
    assert str(cause_of(run)).startswith("the first run ended with another plan than that of its config.json")
    RunDirectory(run).write_event(5, "restart", "env 2 was restarted")
    assert cause_of(run) == "an env or a process of the first run was restarted (events.jsonl says why)"


def test_a_resume_with_an_empty_replay_buffer_is_the_cause(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 64, "num_envs": 2, "checkpoint_replay": "none", "quiet": True}
    settings |= {"learning_rate": 1e-3, "epsilon": 0.1}
    run = veldt.train("dqn", env="CartPole-v1", run_dir=tmp_path / "run", **settings).path
    assert cause_of(run) is None
    veldt.resume(run, steps=128, quiet=True)
    assert cause_of(run) == ("the run was resumed with an empty replay buffer (--checkpoint-replay none)")


_MADE = """
from pathlib import Path
import gymnasium

def make():
    env = gymnasium.make("CartPole-v1")
    env.unwrapped.gravity = float(Path(__file__).with_name("gravity").read_text())
    return env
"""


def test_code_of_the_users_own_may_be_the_cause(
    in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also beside what is known to be other than it was; a resume that changes nothing is no cause."""
    monkeypatch.syspath_prepend(in_tmp)
    (in_tmp / "world.py").write_text(_MADE)
    (in_tmp / "gravity").write_text("9.8")
    settings = {**SMALL, "steps": 256, "env_backend": "in-process", "anneal_learning_rate": False}
    run = veldt.train("ppo", env="world:make", run_dir="run", **{**settings, "anneal_clip": False}).path
    veldt.resume(run, steps=384, quiet=True)
    result = veldt.reproduce(run, run_dir="same", quiet=True)
    assert (result.difference, result.cause, result.own_code) == (None, None, ["world:make"])
    (in_tmp / "gravity").write_text("5.0")
    with pytest.raises(SystemExit):
        main(["reproduce", "run", "--run-dir", "again"])
    own = "code of yours (world:make) is not as it was, or is not deterministic"
    assert capsys.readouterr().err.rstrip().endswith(f"; the plan is the same, so {own}")
    change(run / "config.json", lambda config: config["versions"].update(torch="1.0"))
    with pytest.raises(SystemExit):
        main(["reproduce", "run", "--run-dir", "once-more"])
    said = capsys.readouterr().err.rstrip()
    assert "; torch was 1.0 and is " in said and said.endswith(f"; or {own}")


@pytest.mark.parametrize(
    ("recipe", "settings", "expected"),
    [
        ("ppo", {"anneal_learning_rate": False, "anneal_clip": False}, []),
        ("ppo", {"anneal_learning_rate": True, "anneal_clip": True}, ["learning_rate", "clip"]),
        ("ppo", {"learning_rate": "constant:1e-3", "ent_coef": "linear:0.1:0"}, ["ent_coef"]),
        ("a2c", {"learning_rate": "mine:schedule"}, ["learning_rate"]),
        ("dqn", {"epsilon_steps": 1_000}, []),
        ("dqn", {"epsilon_steps": 0}, ["exploration_fraction"]),
        ("dqn", {"epsilon_steps": 0, "noisy": True}, []),
        ("dqn", {"epsilon": "linear:1:0"}, ["epsilon"]),
        ("dqn", {"epsilon": 0.1, "replay": "prioritised"}, ["importance_exponent_end"]),
        ("ddpg", {"actor_learning_rate": "cosine:1e-3:0"}, ["actor_learning_rate"]),
    ],
)
def test_settings_that_change_over_the_steps_of_the_run(
    recipe: str, settings: dict[str, Any], expected: list[str]
) -> None:
    env = "Pendulum-v1" if recipe == "ddpg" else "CartPole-v1"
    config = with_settings(find(recipe).config(env), {"learning_rate": 1e-3, **settings})
    replay = config.replay.annealed_settings() if config.replay else []
    assert [*config.learn.annealed_settings(), *replay] == expected


@pytest.mark.parametrize(
    ("values", "is_cause"),
    [([60.0, 70.0], False), ([60.0, None], False), ([70.0, 60.0], True), ([None, 60.0], True)],
)
def test_only_a_lower_return_is_a_cause(
    original: Path, tmp_path: Path, values: list[float | None], is_cause: bool
) -> None:
    """The first run may have trained on where the new one has reached the last return."""
    shutil.copytree(original, tmp_path / "run")
    change(tmp_path / "run" / "config.json", lambda config: config["resolved"]["run"].update(until=values[0]))
    for value in values[1:]:
        RunDirectory(tmp_path / "run").change_config("run", {"until": value})
    change(
        tmp_path / "run" / "summary.json",
        lambda summary: summary.update(plan_digest=digest_now(tmp_path / "run")),
    )
    assert (cause_of(tmp_path / "run") is not None) is is_cause


def digest_now(run: Path) -> str:
    return plan_digest(from_dict(RunDirectory.open(run).read_config()["resolved"]))


def test_every_value_before_the_last_is_named(original: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(original, run)
    for value in (60.0, 12_345.5, 60.0):
        RunDirectory(run).change_config("run", {"until": value})
    assert str(cause_of(run)).startswith(
        "--until was none, then 60, then 12,345.5, then 60 (the run was resumed)"
    )


def change(path: Path, by: Callable[[dict[str, Any]], object]) -> None:
    """Changes a JSON file."""
    value = json.loads(path.read_text())
    by(value)
    path.write_text(json.dumps(value))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            lambda run: cut(sorted(run.glob("checkpoints/*/weights.safetensors"))[-1]),
            "weights.safetensors is truncated",
        ),
        (
            lambda run: shutil.rmtree(sorted(run.glob("checkpoints/*"))[-1]),
            "the newest checkpoint is of step 0, and ",
        ),
        (lambda run: cut(run / "episodes.jsonl"), "episodes.jsonl is damaged, its end is missing"),
        (lambda run: (run / "episodes.jsonl").unlink(), "episodes.jsonl is damaged, its end is missing"),
        (
            lambda run: (run / "episodes.jsonl").write_text("?" + (run / "episodes.jsonl").read_text()),
            "episodes.jsonl is damaged, 1 of its lines ",
        ),
        (lambda run: cut(run / "actions.bin"), "actions.bin is truncated"),
        (
            lambda run: change(run / "config.json", lambda config: config["given"].update(run={"x": 1})),
            "which the run does not have as settings: config.json is not as veldt wrote it",
        ),
        (lambda run: change(run / "summary.json", lambda found: found.pop("steps")), "its steps are None"),
        (lambda run: change(run / "summary.json", lambda found: found.update(steps=9)), "has not finished"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_it_is_trained(
    original: Path, tmp_path: Path, damage: Callable[[Path], object], problem: str
) -> None:
    shutil.copytree(original, tmp_path / "run")
    damage(tmp_path / "run")
    with pytest.raises(veldt.VeldtError) as raised:
        veldt.reproduce(tmp_path / "run", run_dir=tmp_path / "again", quiet=True)
    assert problem in str(raised.value)
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(("steps", "until", "is_repeatable"), [(640, None, True), (20_000, 8.0, False)])
def test_several_learners_are_repeatable_if_steps_end_them(
    tmp_path: Path, steps: int, until: float | None, is_repeatable: bool
) -> None:
    settings: dict[str, Any] = {"steps": steps, "until": until, "learners": 2, "num_envs": 4, "quiet": True}
    run = veldt.train("a2c", env="CartPole-v1", run_dir=tmp_path / "run", **settings)
    assert run.reason == ("steps" if until is None else "until")
    result = veldt.reproduce(run.path, run_dir=tmp_path / "again", quiet=True)
    assert result.is_repeatable is is_repeatable
    assert result.difference is None or not is_repeatable


def test_processes_that_race_are_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = veldt.train(
        "a3c", env="CartPole-v1", run_dir=tmp_path / "run", steps=2_000, learners=2, num_envs=4, quiet=True
    )
    main(["reproduce", str(run.path), "--run-dir", str(tmp_path / "again")])
    assert "the results differ, as those of processes that race" in capsys.readouterr().out
