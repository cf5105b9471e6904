"""`veldt bench` with several samplers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from veldt.cli import main
from veldt.cli.verbs.bench_samplers import await_others
from veldt.envs.in_process import InProcessEnvs
from veldt.runtime.cores import allowed_cores


@pytest.mark.skipif(len(allowed_cores()) < 2, reason="each sampler needs a core")
@pytest.mark.parametrize("barrier", [[], ["--barrier"]])
def test_two_samplers_are_measured_beside_each_other(
    barrier: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--samplers", "2", "--num-envs", "2", "--seconds", "0.2"]
    main(["bench", "sampling", "--env", "CartPole-v1", "--recipe", "a2c", "--json", *size, *barrier])
    said = json.loads(capsys.readouterr().out)
    assert (said["samplers"], said["barrier"]) == (2, bool(barrier))
    assert (said["cores"], "torch" in said["versions"]) == (said["hardware"]["cores"], True)
    assert said["decisions"][0].startswith("2 samplers, waiting" if barrier else "2 samplers, free of")
    assert (
        list(said["metrics"]) == ["samplers together"] and said["metrics"]["samplers together"]["sps"] > 0.0
    )


def test_a_sampler_waits_for_those_that_have_finished_less() -> None:
    finished_N, looks = np.array([3, 2]), []

    def goes_on() -> bool:
        looks.append(0)
        finished_N[1] += len(looks) == 5
        return len(looks) < 10

    await_others(finished_N, 0, goes_on)
    assert len(looks) == 5
    await_others(finished_N, 1, goes_on)
    assert len(looks) == 5, "it is not ahead"


@pytest.mark.skipif(len(allowed_cores()) < 2, reason="each sampler needs a core")
def test_an_interrupt_ends_samplers(tmp_path: Path) -> None:
    code = "from veldt.cli import main; main('bench sampling --samplers 2 --seconds 100 --env CartPole-v1'.split())"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(psutil.Process(process.pid).children(recursive=True)) < 3:
            time.sleep(0.1)
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert b"Traceback" not in errors, errors
        assert process.returncode in (130, -signal.SIGINT)
    assert not psutil.wait_procs(family, timeout=10)[1]


def test_waiting_envs_are_reset_between_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a reset, an env would make no step after its first episode."""
    waits = []

    def finish_resets(envs: InProcessEnvs) -> None:
        finish(envs)
        waits.append(envs.trajectory.is_last[0].any())

    finish = InProcessEnvs.finish_resets
    monkeypatch.setattr(InProcessEnvs, "finish_resets", finish_resets)
    main(
        [
            "bench",
            "sampling",
            "--env",
            "CartPole-v1",
            "--num-envs",
            "4",
            "--seconds",
            "0.1",
            "--resets",
            "wait",
        ]
    )
    assert len(waits) > 5 and not any(waits)
