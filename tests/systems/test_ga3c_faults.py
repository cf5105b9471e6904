"""Each process of a GA3C run is killed while it trains: training continues, with a note, and leaves no process."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from child_runs import END_S, START_S, alive, child, descendants, roles, wait_until
from run_rows import events, metrics

pytestmark = pytest.mark.alone

CODE = """
from veldt.cli import main
main(["train", "ga3c", "--env", "CartPole-v1", "--run-dir", "run", "--seed", "1", "--num-envs", "6",
      "--agent-processes", "2", "--steps", "3000000", "--checkpoint-every", "1000", "--log-every", "0.2",
      "--evaluate-every", "1000", "--evaluate-steps", "1000"])
"""
ROLES = {"model", "agent 0", "agent 1", "evaluator"}


@pytest.mark.timeout(480)
@pytest.mark.parametrize(
    "victims",
    [
        ("agent 0", "model"),
        pytest.param(
            ("agent 0", "model", "agent 1", "evaluator", "model", "agent 0"), marks=pytest.mark.long
        ),
    ],
    ids=["two", "all, some of them twice"],
)
def test_training_continues_after_any_process_is_killed(victims: tuple[str, ...], in_tmp: Path) -> None:
    run = in_tmp / "run"

    def step() -> int:
        return max((row["step"] for row in metrics(run)), default=0)

    with child(CODE, in_tmp) as process:
        wait_until(lambda: process.poll() is not None or step() > 1500, START_S, "training")
        for count, name in enumerate(victims, 1):
            wait_until(lambda: set(roles(process.pid)) >= ROLES, START_S, "all roles")
            roles(process.pid)[name].kill()
            wait_until(lambda n=count: len(events(run, "restart")) == n, START_S, f"the {name} again")
            before = step()
            wait_until(lambda b=before: process.poll() is not None or step() > b + 500, START_S, "more steps")
            assert process.poll() is None
        family = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=START_S)
        assert process.returncode == 0, errors
        wait_until(lambda: not alive(family), END_S, "all processes gone")
    assert "its checkpoint is saved" in output
    texts = events(run, "restart")
    for name in set(victims):
        of_it = [text for text in texts if text.startswith(f"the {name} was killed by SIGKILL")]
        assert len(of_it) == victims.count(name)
        assert all(("from the checkpoint of step" in text) == (name == "model") for text in of_it)
    versions = [row["train/updates"] for row in metrics(run)]
    assert versions == sorted(versions), "versions only grow"


def test_when_the_program_itself_is_killed_nothing_is_left(in_tmp: Path) -> None:
    with child(CODE, in_tmp) as process:
        wait_until(lambda: process.poll() is not None or bool(metrics(in_tmp / "run")), START_S, "training")
        wait_until(lambda: set(roles(process.pid)) >= ROLES, START_S, "all roles")
        family = descendants(process.pid)
        process.kill()
        wait_until(lambda: not alive(family), END_S, "all processes gone")
