"""Processes of a run are killed and stopped while it trains: training continues, with a note about each."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from child_runs import END_S, START_S, alive, child, descendants, roles, wait_until
from run_rows import events, metrics

from veldt.report import write_report

pytestmark = pytest.mark.alone

# Nobody reaches the score before all of the victims were killed.
ENV = "environments:cartpole_of_200_steps_at_first"
CODE = """
from veldt.cli import main
main(["train", "{recipe}", "--env", "{env}", "--until", "{until}", "--run-dir", "run", "--seed", "1",
      "--steps", "3000000", "--checkpoint-every", "5000", "--log-every", "0.5", *"{more}".split()])
"""


def victims(names: list[str], seconds: float) -> Iterator[str]:
    """Names of roles to kill, one a second: each of `names` once, and actors between."""
    rng, end = random.Random(1), time.monotonic() + seconds
    for name in names:
        yield f"actor {rng.randrange(4)}"
        yield name
    while time.monotonic() < end:
        yield f"actor {rng.randrange(4)}"


@pytest.mark.long
@pytest.mark.timeout(480)
@pytest.mark.parametrize(
    ("recipe", "until", "more", "others"),
    [
        ("impala", 220, "--actors 4 --num-envs 64", ["learner"]),
        (
            "apex-dqn",
            220,
            "--actors 4 --shards 2",
            ["replay 0", "learner", "replay 1", "evaluator"],
        ),
    ],
)
def test_a_run_with_killed_and_stopped_processes_still_learns(
    recipe: str, until: int, more: str, others: list[str], in_tmp: Path
) -> None:
    run = in_tmp / "run"
    with child(CODE.format(recipe=recipe, env=ENV, until=until, more=more), in_tmp) as process:
        trains = lambda: any(row["step"] > 5000 for row in metrics(run))  # noqa: E731
        wait_until(lambda: process.poll() is not None or trains(), START_S, "training")
        killed: list[str] = []
        stopped, stopped_at = psutil.Process(roles(process.pid)["actor 3"].pid), time.monotonic()
        stopped.suspend()  # for less than the time after which it would be replaced
        for name in victims(others, 12.0):
            assert process.poll() is None, process.communicate()[1]
            if stopped is not None and time.monotonic() - stopped_at > 4.0:
                stopped.resume()
                stopped = None
            found = roles(process.pid).get(name)
            if found is not None and (stopped is None or found.pid != stopped.pid):
                found.kill()
                killed.append(name)
            time.sleep(1.0)
        if stopped is not None:
            stopped.resume()
        (in_tmp / "longer").touch()
        family = descendants(process.pid)
        output, errors = process.communicate(timeout=360)
        assert process.returncode == 0, errors
        wait_until(lambda: not alive(family), END_S, "all processes gone")
    assert "reached its score" in output, "in spite of all"
    assert set(others) <= set(killed)
    restarts = events(run, "restart")
    for name in set(killed):
        of_it = [text for text in restarts if text.startswith(f"the {name} was killed by SIGKILL")]
        # One that died while the run was ending needed no restart.
        assert killed.count(name) - 1 <= len(of_it) <= killed.count(name)
    page = write_report([run], run / "report.html").read_text()
    assert page.count("was started again") == len(restarts) > 0


def test_the_run_ends_when_a_role_uses_up_its_restarts(in_tmp: Path) -> None:
    with child(
        CODE.format(
            recipe="impala", env=ENV, until=475, more="--actors 2 --num-envs 4 --unrolls 4 --max-restarts 1"
        ),
        in_tmp,
    ) as process:
        for _ in range(2):
            wait_until(
                lambda: process.poll() is not None or "actor 1" in roles(process.pid), START_S, "an actor"
            )
            os.kill(roles(process.pid)["actor 1"].pid, signal.SIGKILL)
            time.sleep(0.5)
        _, errors = process.communicate(timeout=START_S)
        assert process.returncode == 1
        assert (
            "veldt: the actor 1 was killed by SIGKILL" in errors
            and "after 1 restart (--max-restarts is 1" in errors
        )
