"""Sampler-learners are killed and stopped: independent ones continue without it, joint ones from a checkpoint."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from child_runs import END_S, START_S, alive, child, descendants, roles, wait_until
from run_rows import events, metrics

from run_state import newest

pytestmark = pytest.mark.alone

# A hung learner is found out quickly.
CODE = """
from veldt.cli import main
from veldt.systems.roles import graph_parts
graph_parts._UPDATE_S = {update_s}
main(["train", "{recipe}", "--env", "{env}", "--run-dir", "run", "--seed", "1", "--checkpoint-every", "2000",
      "--log-every", "0.5", *"{more}".split()])
"""


def begun(process: object, run: Path) -> bool:
    return any(row["step"] > 4000 for row in metrics(run))


@contextmanager
def two_learners(in_tmp: Path, more: str = "", code: str = CODE) -> Iterator[subprocess.Popen[str]]:
    """A run of A2C by two synchronised learners, which has begun to train."""
    more = f"--learners 2 --num-envs 4 --hidden 16 --steps 3000000 {more}"
    with child(code.format(recipe="a2c", env="CartPole-v1", more=more, update_s=60.0), in_tmp) as process:
        wait_until(lambda: process.poll() is not None or begun(process, in_tmp / "run"), START_S, "training")
        yield process


@pytest.mark.long
@pytest.mark.timeout(480)
@pytest.mark.parametrize(
    ("recipe", "settings", "goes_on_from"),
    [
        (
            "a3c",
            " --evaluate-every 2000 --evaluate-steps 2000",
            {"learner 1": " from the central store", "evaluator": "", "learner 0": " from the central store"},
        ),
        (
            "gorila",
            " --parameter-shards 2",
            {
                "server 1": " from what it had published",
                "evaluator": "",
                "learner 0": " from the parameter server",
            },
        ),
    ],
    ids=["a store", "a server"],
)
def test_independent_learners_continue_when_one_is_killed(
    recipe: str, settings: str, goes_on_from: dict[str, str], in_tmp: Path
) -> None:
    run, more = in_tmp / "run", "--learners 3 --num-envs 24 --until 220 --steps 3000000" + settings
    env = "environments:cartpole_of_200_steps_at_first"  # so that they are not done before all were killed
    code = "from veldt.runtime import process_state\nprocess_state.STOPPED_S = 1000.0\n" + CODE
    with child(code.format(recipe=recipe, env=env, more=more, update_s=60.0), in_tmp) as process:
        wait_until(lambda: process.poll() is not None or begun(process, run), START_S, "training")
        stopped = psutil.Process(roles(process.pid)["learner 2"].pid)
        stopped.suspend()  # perhaps with a chunk in its hand
        for name in goes_on_from:
            wait_until(
                lambda n=name: process.poll() is not None or n in roles(process.pid), START_S, f"the {name}"
            )
            roles(process.pid)[name].kill()
            time.sleep(0.5)
        stopped.resume()
        (in_tmp / "longer").touch()
        family = descendants(process.pid)
        output, errors = process.communicate(timeout=360)
        assert process.returncode == 0, errors
        wait_until(lambda: not alive(family), END_S, "all processes gone")
    assert "reached its score" in output, "in spite of all"
    restarts = events(run, "restart")
    assert len(restarts) == len(goes_on_from)
    for name, source in goes_on_from.items():
        (text,) = (text for text in restarts if text.startswith(f"the {name} was killed by SIGKILL"))
        assert f"started again{source}" in text


@pytest.mark.timeout(480)
@pytest.mark.parametrize(
    ("sign", "why"),
    [
        (signal.SIGKILL, "the learner 1 was killed by SIGKILL"),
        pytest.param(signal.SIGSTOP, "the learner 1 sent no heartbeat for 5 s", marks=pytest.mark.long),
    ],
    ids=["killed", "hung"],
)
def test_joint_learners_restart_from_the_newest_checkpoint(sign: int, why: str, in_tmp: Path) -> None:
    """One is killed or hangs while the other waits for its gradient; the run ends as if nothing had happened to it."""
    more = "--learners 2 --num-envs 4 --hidden 16 --steps 12000 --threads 1 --precision fp32 --env-timeout 1"
    code = CODE.format(recipe="a2c", env="CartPole-v1", more=more, update_s=4.0)
    for directory in ("whole", "lost"):
        (in_tmp / directory).mkdir()
    with child(code, in_tmp / "whole") as process:
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
    whole = newest(in_tmp / "whole" / "run")
    run = in_tmp / "lost" / "run"
    with child(code, in_tmp / "lost") as process:
        wait_until(lambda: process.poll() is not None or begun(process, run), START_S, "training")
        roles(process.pid)["learner 1"].send_signal(sign)
        family = descendants(process.pid)
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        wait_until(lambda: not alive(family), END_S, "all processes gone")
    (text,) = events(run, "restart")
    assert text.startswith(why) and "continue from the checkpoint of step" in text
    after = newest(run)
    assert after.step == whole.step
    for name, array in whole.groups["weights"].items():
        assert (array == after.groups["weights"][name]).all(), name


def test_the_run_ends_when_joint_learners_use_up_their_restarts(in_tmp: Path) -> None:
    with two_learners(in_tmp, "--max-restarts 0") as process:
        family = descendants(process.pid)
        roles(process.pid)["learner 0"].kill()
        _, errors = process.communicate(timeout=START_S)
        assert process.returncode == 1
        assert "veldt: the learner 0 was killed by SIGKILL" in errors
        assert "after 0 restarts: --max-restarts is 0, and a larger one allows more" in errors
        wait_until(lambda: not alive(family), END_S, "all processes gone")


def test_a_request_to_stop_continues_a_stopped_learner(in_tmp: Path) -> None:
    """The last checkpoint has its part, and the run need not wait until it counts as lost."""
    with two_learners(in_tmp) as process:
        roles(process.pid)["learner 1"].suspend()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=10)
        assert process.returncode == 0, errors
    assert "its checkpoint is saved" in output
    assert newest(in_tmp / "run").step > 4000 and events(in_tmp / "run", "restart") == []


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_request_to_stop_during_a_joint_restart_is_not_lost(in_tmp: Path) -> None:
    with two_learners(in_tmp) as process:
        # A stopped learner does not end by itself when its peer is lost: it is gone when the run has noticed the loss.
        roles(process.pid)["learner 0"].suspend()
        roles(process.pid)["learner 1"].kill()
        wait_until(lambda: not roles(process.pid), START_S, "the learners gone")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=10)
        assert process.returncode == 0, errors
    assert "its checkpoint is saved" in output


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_learner_that_stays_stopped_is_replaced(in_tmp: Path) -> None:
    code = "from veldt.runtime import process_state\nprocess_state.STOPPED_S = 2.0\n" + CODE
    with two_learners(in_tmp, code=code) as process:
        roles(process.pid)["learner 1"].suspend()
        wait_until(lambda: len(events(in_tmp / "run", "restart")) > 0, 15, "the restart")
    (text,) = events(in_tmp / "run", "restart")
    assert text.startswith("the learner 1 was stopped for 2 s (SIGSTOP")
