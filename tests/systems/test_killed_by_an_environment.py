"""An environment that kills the process of its role ends the run; a role that is killed from outside does not."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from child_runs import START_S, child, roles, wait_until
from run_rows import events

import veldt
from environments import Reset, Scripted, Step
from veldt.errors import RoleError

SMALL: dict[str, Any] = {"num_envs": 4, "hidden": (8,), "threads": 1, "seed": 3, "quiet": True}
KILLS = {
    "ga3c": ("agent", {"agent_processes": 2}),
    "apex-dqn": ("actor", {"actors": 2, "evaluator_share": 0.0, "buffer_size": 4000}),
}
OUTSIDE = """
from veldt.cli import main
main(["train", "apex-dqn", "--env", "CartPole-v1", "--run-dir", "run", "--seed", "1", "--num-envs", "4",
      "--actors", "2", "--steps", "3000000", "--log-every", "0.2", "--evaluator-share", "0"])
"""


class KillsRole(Scripted):
    """Kills its process in each fifth step, unless that is the one of the test."""

    def step(self, action: Any) -> Step:
        if self._t % 5 == 4 and multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


def kills_role() -> gymnasium.Env[Any, Any]:
    return KillsRole([(20, "terminated")])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("recipe", KILLS)
def test_an_environment_that_kills_its_process_is_named_and_ends_the_run(recipe: str, tmp_path: Path) -> None:
    name, settings = KILLS[recipe]
    with pytest.raises(RoleError) as ended:
        veldt.train(recipe, env=kills_role, run_dir=tmp_path / "run", **(SMALL | settings))
    died = (
        rf"the {name} [01] was killed by SIGKILL while it ran environment test_killed_by_an_environment:kills_role, "
        r"env [0-3] \(seed \d+\), in step 4 \(by hand, by the system for lack of memory, or by that code\)"
    )
    limit = r" once more, after 2 restarts \(before an episode had ended, it died so 3 times in a row; .*\)"
    assert re.fullmatch(f"{died}{limit}", str(ended.value))
    restarts = events(tmp_path / "run", "restart")
    assert 2 <= len(restarts) <= 4 and all(re.match(died, text) for text in restarts), restarts


class EndsLearnerLater(Scripted):
    """Ends its process in a step of its second episode, in a learner's process."""

    _episodes = 0

    def __init__(self, script: Sequence[tuple[int, str]], end: Callable[[], object]) -> None:
        super().__init__(script)
        self._end = end

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self._episodes += 1
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Step:
        if self._episodes == 2 and self._t == 4 and multiprocessing.parent_process() is not None:
            self._end()
        return super().step(action)


def kills_learner_later() -> gymnasium.Env[Any, Any]:
    return EndsLearnerLater([(20, "terminated")], lambda: os.kill(os.getpid(), signal.SIGKILL))


def exits_later() -> gymnasium.Env[Any, Any]:
    return EndsLearnerLater([(20, "terminated")], lambda: os._exit(3))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("env", "on_env_error", "died"),
    [
        (kills_learner_later, "stop", r"was killed by SIGKILL while it ran .*, in step 4 "),
        (exits_later, "restart", r"ended its process in step 4: the process exited with code 3"),
    ],
)
def test_synchronised_learners_are_not_restarted_to_the_same_death_for_ever(
    env: Callable[[], gymnasium.Env[Any, Any]], on_env_error: str, died: str, tmp_path: Path
) -> None:
    """From the checkpoint they come to the same step of the same episode each time."""
    settings = SMALL | {"learners": 2, "env_backend": "in-process", "on_env_error": on_env_error}
    with pytest.raises(RoleError) as ended:
        veldt.train("a2c", env=env, run_dir=tmp_path / "run", **settings)
    assert re.search(died, str(ended.value)), ended.value
    notes = " ".join(ended.value.__notes__)
    assert "It is not restarted again: it died in that step of that episode 3 times" in notes
    assert "a new run with --env-backend workers --on-env-error restart begins another episode" in notes
    # Which of the two learners dies first is chance.
    assert 2 <= len(events(tmp_path / "run", "restart")) <= 4


@pytest.mark.alone
@pytest.mark.timeout(240)
def test_a_role_that_is_killed_from_outside_again_and_again_is_restarted(in_tmp: Path) -> None:
    run = in_tmp / "run"

    def episodes() -> int:
        """Of actor 0: a kill counts only before its first one."""
        lines = (run / "episodes.jsonl").read_text().splitlines() if (run / "episodes.jsonl").exists() else []
        return sum('"env": 0,' in line for line in lines)

    with child(OUTSIDE, in_tmp) as process:
        for count in range(1, 6):
            before = episodes()
            wait_until(lambda b=before: process.poll() is not None or episodes() > b, START_S, "an episode")
            assert process.poll() is None
            roles(process.pid)["actor 0"].kill()
            wait_until(lambda n=count: len(events(run, "restart")) == n, START_S, "a restart")
    assert all(text.startswith("the actor 0 was killed by SIGKILL") for text in events(run, "restart"))
