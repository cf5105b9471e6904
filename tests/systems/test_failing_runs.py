"""Training with an environment that fails: the error reaches the caller, or the env is restarted and counted."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veldt
from faulty_envs import Failing
from run_state import SMALL, newest
from veldt.envs.seeding import ACTOR, derive_seed, episode_seed
from veldt.errors import RoleError
from veldt.learning.learner import check_finite
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.tracking.metrics import read_metrics

SEED = 3
IN_PROCESS = {"env_backend": "in-process"}
WORKERS = {"env_backend": "workers", "processes": 2}
CASES = [
    ("raise", IN_PROCESS),
    ("SystemExit", IN_PROCESS),
    ("nan reward", IN_PROCESS),
    ("hang", IN_PROCESS),
    ("raise", WORKERS),
    ("hang", WORKERS),
    ("kill", WORKERS),
]
IDS = [f"{how}, {where['env_backend']}" for how, where in CASES]


def train(how: str, run: Path, failing: list[tuple[int, int]], at: int, **settings: Any) -> veldt.Run:
    seeds = [episode_seed(SEED, env_index, episode) for env_index, episode in failing]
    env = functools.partial(Failing, how, seeds, at)
    timeout = 1.0 if how == "hang" else 20.0
    return veldt.train(
        "ppo",
        env=env,
        run_dir=run,
        quiet=True,
        seed=SEED,
        steps=300,
        env_timeout=timeout,
        **(SMALL | settings),
    )


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("how", "where"), CASES, ids=IDS)
def test_the_error_names_environment_env_seed_and_step(
    how: str, where: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(veldt.EnvError) as caught:
        train(how, tmp_path / "run", [(2, 1)], 3, **where)
    assert caught.value.env == 2 and caught.value.seed == episode_seed(SEED, 2, 1)
    assert "faulty_envs:<Failing>, env 2 " in str(caught.value)
    if how in ("raise", "hang"):
        assert "in _spoil" in caught.value.details
    # The run is not locked and not finished.
    run = RunDirectory.open(tmp_path / "run")
    assert not run.is_locked() and run.read_summary() is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("where", [IN_PROCESS, WORKERS], ids=["in-process", "workers"])
def test_a_failed_run_has_a_checkpoint_of_its_last_step(where: dict[str, Any], tmp_path: Path) -> None:
    """With the environment mended, the run goes on as if it had never failed."""
    with pytest.raises(veldt.EnvError):
        train("raise", tmp_path / "failed", [(2, 5)], 3, **where)
    assert 0 < newest(tmp_path / "failed").step < 300
    mended = functools.partial(Failing, "raise", [], 3)
    veldt.resume(tmp_path / "failed", env=mended, quiet=True)
    train("raise", tmp_path / "whole", [], 3, **where)
    failed, whole = newest(tmp_path / "failed"), newest(tmp_path / "whole")
    assert failed.step == whole.step
    for name, weights in whole.groups["weights"].items():
        np.testing.assert_array_equal(failed.groups["weights"][name], weights)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("resets", ["mid-batch", "wait"])
@pytest.mark.parametrize(("how", "where"), CASES, ids=IDS)
def test_restarts_are_counted(how: str, where: dict[str, Any], resets: str, tmp_path: Path) -> None:
    failing = [(2, 1), (3, 2)]
    run = train(how, tmp_path / "run", failing, 3, on_env_error="restart", resets=resets, **where)
    assert run.reason == "steps" and run.summary["steps"] >= 300
    assert read_metrics(run.path)[-1]["system/env_restarts"] == 2
    told = [
        event["text"] for event in RunDirectory.open(run.path).read_events() if event["kind"] == "restart"
    ]
    assert len(told) == 2 and "env 2 " in told[0] and "env 3 " in told[1], told
    # The count goes on with the run.
    assert newest(run.path).meta["monitor"]["env_restarts"] == 2
    seeds = [episode_seed(SEED, *episode) for episode in failing]
    env = functools.partial(Failing, how, seeds, 3)
    veldt.resume(run.path, env=env, quiet=True, steps=400)
    assert read_metrics(run.path)[-1]["system/env_restarts"] == 2


@pytest.mark.parametrize("where", [IN_PROCESS, WORKERS], ids=["in-process", "workers"])
def test_an_environment_that_cannot_be_made(where: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(veldt.EnvError, match=r"faulty_envs:unmakeable could not be made.*no licence"):
        veldt.train(
            "ppo",
            env="faulty_envs:unmakeable",
            run_dir=tmp_path / "run",
            quiet=True,
            **(SMALL | where),
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.timeout(60)
def test_failed_steps_are_not_learned_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the failed step left in its row, the weights are the same."""
    from veldt.envs.stepper import Stepper

    weights = []
    interrupt = Stepper._interrupt

    def interrupt_and_scribble(self: Stepper, b: int, t: int) -> None:
        interrupt(self, b, t)
        self._slot.reward[t, b] = 1e6
        self._slot.action[t, b] = 1

    for name in ("clean", "scribbled"):
        run = train("raise", tmp_path / name, [(2, 1), (1, 0)], 3, on_env_error="restart", **IN_PROCESS)
        weights.append({key: value.tobytes() for key, value in newest(run.path).groups["weights"].items()})
        monkeypatch.setattr(Stepper, "_interrupt", interrupt_and_scribble)
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("recipe", "more"),
    [
        ("a2c", {}),
        ("a2c", {"learners": 2}),
        ("a3c", {"learners": 2}),
        ("gorila", {"learners": 2, "learning_starts": 300}),
        ("ga3c", {}),
        ("impala", {"actors": 2}),
        ("apex-dqn", {"actors": 2, "learning_starts": 300}),
    ],
)
def test_no_checkpoint_is_of_parameters_that_have_diverged(
    recipe: str, more: dict[str, Any], tmp_path: Path
) -> None:
    """However often they are written, and metrics said."""
    run = tmp_path / "run"
    settings = {"learning_rate": 1e38, "max_grad_norm": 0.0, "checkpoint_every": 300, "keep_checkpoints": 50}
    settings |= {"steps": 100_000, "num_envs": 8, "hidden": (16,), "seed": 1, "quiet": True}
    with pytest.raises(veldt.VeldtError, match="training has diverged"):
        veldt.train(recipe, env="CartPole-v1", run_dir=run, **settings, **more)
    for path in run.glob("checkpoints/step-*"):
        weights = CheckpointStore.load(path).groups["weights"]
        assert all(np.isfinite(array).all() for array in weights.values()), path.name


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(("group", "name"), [("weights", "head.weight"), ("optimiser", "square/head.weight")])
def test_parameters_that_are_not_finite_are_refused(group: str, name: str, bad: float) -> None:
    ones = np.ones((2, 3), np.float32)
    groups = {
        # A mask, say.
        "weights": {"head.weight": ones.copy(), "head.mask": np.full(3, -np.inf, np.float32)},
        "optimiser": {"square/head.weight": ones.copy(), "count": np.array(3.0, np.float32)},
    }
    check_finite(1000, groups["weights"], groups["optimiser"])
    groups[group][name][1, 1] = bad
    with pytest.raises(
        veldt.VeldtError, match="parameters are not finite at step 1,000: training has diverged"
    ):
        check_finite(1000, groups["weights"], groups["optimiser"])


ROLES = {
    "a3c": {"learners": 2, "num_envs": 4},
    "impala": {"actors": 2, "num_envs": 4, "unrolls": 4},
    "ga3c": {"agent_processes": 1, "num_envs": 4},
    "apex-dqn": {"actors": 2, "num_envs": 4},
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("recipe", ROLES)
def test_an_environment_that_ends_its_role_is_named_and_not_restarted(recipe: str, tmp_path: Path) -> None:
    """Only --on-env-error restart asks for that."""
    env = functools.partial(Failing, "exit", None, 3)
    with pytest.raises(RoleError) as caught:
        veldt.train(recipe, env=env, run_dir=tmp_path / "run", quiet=True, steps=2_000, **ROLES[recipe])
    sentence = r"environment faulty_envs:<Failing>, env \d \(seed \d+\) ended its process in step 2"
    assert re.search(f"{sentence}: the process exited with code 7", str(caught.value)), caught.value
    assert "restarts" not in str(caught.value)
    assert any("--on-env-error restart" in note for note in caught.value.__notes__)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("recipe", ["impala", "ga3c"])
def test_an_error_of_a_role_s_environment_says_what_to_do(recipe: str, tmp_path: Path) -> None:
    env = functools.partial(Failing, "raise", None, 3)
    with pytest.raises(RoleError) as caught:
        veldt.train(recipe, env=env, run_dir=tmp_path / "run", quiet=True, steps=2_000, **ROLES[recipe])
    notes = " ".join(caught.value.__notes__)
    assert "a new run with --on-env-error restart begins another episode in its place instead" in notes
    assert "veldt resume" not in notes or "when the environment is fixed, " in notes


@pytest.mark.timeout(60)
def test_a_role_that_its_environment_ends_is_restarted_if_that_is_asked_for(tmp_path: Path) -> None:
    seed = episode_seed(derive_seed(SEED, ACTOR, 0, 0), 1, 0)  # of the first start of actor 0
    env = functools.partial(Failing, "exit", [seed], 3)
    veldt.train(
        "impala",
        env=env,
        run_dir=tmp_path / "run",
        quiet=True,
        seed=SEED,
        steps=500,
        on_env_error="restart",
        **(ROLES["impala"] | {"actors": 1}),  # so that its steps are needed
    )
    events = RunDirectory.open(tmp_path / "run").read_events()
    restarts = [event["text"] for event in events if event["kind"] == "restart"]
    assert any(f"env 1 (seed {seed}) ended its process" in text for text in restarts)
