"""Whole runs on Ray on this machine: resumed across runtimes, interrupted, killed, and no process left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from ray_clusters import left, private_ray

import veldt
from veldt.errors import UsageError, VeldtError
from veldt.runs.checkpoints import CheckpointStore
from veldt.runtime.on_ray.cluster import Cluster
from veldt.runtime.orphans import mark_folder

pytestmark = [pytest.mark.alone, pytest.mark.timeout(240)]
SMALL: dict[str, Any] = {
    "num_envs": 4,
    "actors": 2,
    "batch_size": 16,
    "training_intensity": 2.0,
    "learning_starts": 100,
    "buffer_size": 4000,
    "hidden": (16,),
    "steps": 3000,
    "seed": 3,
    "log_every": 0.2,
    "quiet": True,
}


def rate_limiter(run: Path) -> Any:
    return CheckpointStore(run / "checkpoints").newest(print).meta["rate_limiter"]


def test_a_run_is_resumed_from_either_runtime_on_the_other(tmp_path: Path, nothing_left: Path) -> None:
    settings = SMALL | {"shards": 2, "evaluate_every": 1000, "evaluate_steps": 300}
    run = veldt.train("apex-dqn", env="CartPole-v1", run_dir=tmp_path / "run", cluster="local", **settings)
    assert run.reason == "steps" and run.summary["steps"] >= 3000 and run.summary["episodes"] > 10
    assert len(veldt.evaluate(run.path, episodes=2).scores) == 2
    counts = [rate_limiter(run.path)]
    here = veldt.resume(run.path, steps=5000, quiet=True)
    counts.append(rate_limiter(run.path))
    there = veldt.resume(run.path, steps=8000, cluster="local", quiet=True)
    counts.append(rate_limiter(run.path))
    assert here.summary["steps"] >= 5000 and there.summary["steps"] >= 8000
    updates = [one["updates"][0] for one in counts]
    assert 0 < updates[0] < updates[1] < updates[2]
    # As much as the slack may be due and not done: 16 + 2 x (steps of all slots, and those of which returns lack rows).
    due, slack = 2.0 * (sum(counts[2]["steps"]) - 100), 2 * (16 + 2.0 * (4 * 25 + 4 * (3 + 25 * 3)))
    assert 0 <= due - updates[2] * 16 - counts[2]["waived"][0] <= slack + 2.0 * 4 * 25


@pytest.mark.long
def test_impala(tmp_path: Path, nothing_left: Path) -> None:
    settings = {"actors": 2, "num_envs": 4, "hidden": (16,), "steps": 4000, "seed": 1, "quiet": True}
    run = veldt.train("impala", env="CartPole-v1", run_dir=tmp_path / "run", cluster="local", **settings)
    assert run.reason == "steps" and rate_limiter(run.path)["updates"][0] > 5
    assert np.isfinite(run.summary["policy_lag_mean"])


JOINT: dict[str, Any] = {
    "env": "CartPole-v1",
    "learners": 2,
    "num_envs": 4,
    "horizon": 5,
    "hidden": (16,),
    "threads": 1,
    "precision": "fp32",
    "seed": 1,
    "quiet": True,
}


def are_equal(one: Path, other: Path) -> None:
    """All weights of two runs at their ends, bit for bit."""
    a, b = (CheckpointStore(run / "checkpoints").newest(print) for run in (one, other))
    assert a.step == b.step
    for name, array in a.groups["weights"].items():
        np.testing.assert_array_equal(array, b.groups["weights"][name], name)


def test_sampler_learners_on_ray_equal_those_on_one_machine(tmp_path: Path, nothing_left: Path) -> None:
    """One run is trained on Ray in its middle part, the other on this machine alone."""
    veldt.train("a2c", run_dir=tmp_path / "there", steps=600, **JOINT)
    veldt.resume(tmp_path / "there", steps=1400, cluster="local", quiet=True)
    veldt.resume(tmp_path / "there", steps=2000, quiet=True)
    veldt.train("a2c", run_dir=tmp_path / "here", steps=2000, **JOINT)
    are_equal(tmp_path / "there", tmp_path / "here")


def _hosts_of(role: str) -> Iterator[psutil.Process]:
    """Processes below this one with a thread of this name."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(OSError):
            if any(
                path.read_text().strip() == role for path in Path(f"/proc/{process.pid}/task").glob("*/comm")
            ):
                yield process


@pytest.mark.long
def test_one_of_several_sampler_learners_is_killed(tmp_path: Path, nothing_left: Path) -> None:
    """All continue from the newest checkpoint, and the run ends as usual."""
    run, killed = tmp_path / "there", list[int]()

    def kill_one() -> None:
        end = time.monotonic() + 90
        while not killed and time.monotonic() < end:
            if any(path.name > "step-000000000000" for path in run.glob("checkpoints/step-*")):
                killed.extend(process.pid for process in _hosts_of("learner 1"))
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    killer = threading.Thread(target=kill_one)
    killer.start()
    settings = JOINT | {"checkpoint_every": 2000}
    veldt.train("a2c", run_dir=run, cluster="local", steps=20_000, **settings)
    killer.join()
    # Counts of steps are a little old on a cluster: it may have done more.
    veldt.resume(run, steps=22_000, quiet=True)
    veldt.train("a2c", run_dir=tmp_path / "here", steps=22_000, **settings)
    are_equal(run, tmp_path / "here")
    (text,) = (line for line in (run / "events.jsonl").read_text().splitlines() if "restart" in line)
    assert killed and "the learner 1 " in text and "all learners continue from the checkpoint of step" in text


@pytest.mark.parametrize("how", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL])
def test_nothing_outlives_a_run(how: signal.Signals, in_tmp: Path, nothing_left: Path) -> None:
    flags = ["--actors", "2", "--num-envs", "4", "--batch-size", "16", "--learning-starts", "100"]
    flags += ["--hidden", "16", "--steps", "1000000000", "--buffer-size", "5000", "--checkpoint-every", "300"]
    command = [
        sys.executable,
        "-m",
        "veldt",
        "train",
        "apex-dqn",
        "--env",
        "CartPole-v1",
        "--cluster",
        "local",
    ]
    process = subprocess.Popen(
        [*command, "--run-dir", "run", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        end = time.monotonic() + 90
        while not any(path.name != "step-000000000000" for path in Path("run").glob("checkpoints/step-*")):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end
            time.sleep(0.1)
        _only_on_loopback(process.pid)
        _stands_back_for(process.pid)
        os.killpg(process.pid, how)  # what a terminal or a scheduler does to all processes of the run
        output, errors = process.communicate(timeout=60)
        if how == signal.SIGTERM:
            assert process.returncode == 0 and "its checkpoint is saved" in output, errors
        else:
            end = time.monotonic() + 15
            while found := left(nothing_left):
                assert time.monotonic() < end, found
                time.sleep(0.1)
    finally:
        process.kill()
        process.communicate()


def _begin_head(directory: Path) -> subprocess.Popen[bytes]:
    directory.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "veldt.runtime.on_ray.head", "1", "0", str(80 * 2**20), str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def test_a_ray_that_is_being_started_ends_with_its_run(nothing_left: Path) -> None:
    directory = nothing_left / "veldt-ray-head"
    with private_ray(), _begin_head(directory) as head:
        said, _ = head.communicate(timeout=60)  # which closes its input, as the end of the run does
        assert not said and head.returncode == 0 and not directory.exists()


@pytest.mark.long
def test_nothing_of_a_ray_outlives_its_head(nothing_left: Path) -> None:
    """Also a process that was stopped by a signal."""
    directory = nothing_left / "veldt-ray-head"
    with private_ray(), _begin_head(directory) as head:
        assert head.stdout is not None and head.stdout.readline()
        family = psutil.Process(head.pid).children(recursive=True)
        (raylet,) = (process for process in family if process.name() == "raylet")
        raylet.children()[0].suspend()
        head.communicate(timeout=60)
        assert not [process for process in family if process.is_running()] and not directory.exists()


def test_what_a_run_left_that_was_killed_with_its_ray_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, dead = tmp_path / "veldt-ray-own", tmp_path / "veldt-ray-dead"
    for folder in (own, dead):
        folder.mkdir()
    mark_folder(own)
    code = "import sys, pathlib; from veldt.runtime.orphans import mark_folder; mark_folder(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(dead)], check=True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("veldt.runtime.on_ray.cluster._LONGEST", 1000)
    cluster = Cluster("local")
    monkeypatch.setattr("veldt.runtime.on_ray.cluster.sys.executable", "false")
    with pytest.raises(VeldtError, match="Ray could not be started on this machine"):
        cluster.ready(cpus=1, gpus=0, store_bytes=1)
    assert own.is_dir() and not dead.exists()
    cluster.close()
    assert [path.name for path in tmp_path.iterdir()] == [own.name]


def test_a_head_process_that_cannot_be_started_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("veldt.runtime.on_ray.cluster._LONGEST", 1000)
    monkeypatch.setattr("veldt.runtime.on_ray.cluster.sys.executable", str(tmp_path / "absent"))
    cluster = Cluster("local")
    with pytest.raises(FileNotFoundError):
        cluster.ready(cpus=1, gpus=0, store_bytes=1)
    cluster.close()
    assert not list(tmp_path.iterdir())


def _only_on_loopback(pid: int) -> None:
    """All processes of the run listen on the loopback interface only."""
    family = psutil.Process(pid).children(recursive=True)
    listening = [c for process in family for c in process.net_connections("inet") if c.status == "LISTEN"]
    assert len(listening) > 3
    assert {c.laddr.ip.removeprefix("::ffff:") for c in listening} <= {"127.0.0.1", "::1"}


def _stands_back_for(pid: int) -> None:
    """Ray's processes are a session, of less weight to Linux than that of the run's own process."""
    if not Path("/proc/self/autogroup").exists():
        return
    family = psutil.Process(pid).children(recursive=True)
    (head,) = (process.pid for process in family if "veldt.runtime.on_ray.head" in process.cmdline())
    of_ray = [process.pid for process in family if "ray" in " ".join(process.cmdline())]
    assert len(of_ray) > 3 and {os.getsid(one) for one in of_ray} == {head}
    weights = [Path(f"/proc/{one}/autogroup").read_text().split() for one in (*of_ray, pid)]
    *theirs, own = weights
    assert {(group, niceness) for group, _, niceness in theirs} == {(theirs[0][0], "5")}
    assert own[0] != theirs[0][0] and own[2] == "0"


@pytest.mark.parametrize(
    ("recipe", "cluster", "message"),
    [
        (
            "ppo",
            "local",
            "--cluster is 'local', and ppo cannot run there: it learns and acts in one process: take more --learners",
        ),
        ("apex-dqn", "somewhere", "it must be 'local', or the address of a running Ray as HOST:PORT"),
        ("apex-dqn", "ray://1.2.3.4:5", "it must be 'local', or the address of a running Ray as HOST:PORT"),
        (
            "apex-dqn",
            "127.0.0.1:9",
            r"no Ray answers there \(.*refused.*\): start one with `ray start --head`",
        ),
    ],
)
def test_clusters_that_a_run_cannot_join_are_refused(
    recipe: str, cluster: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        veldt.train(recipe, env="CartPole-v1", run_dir=tmp_path / "run", cluster=cluster, quiet=True)
    assert not (tmp_path / "run").exists()
