"""`veldt bench` with several samplers."""

from __future__ import annotations

import json

import pytest

from veldt.cli import main
from veldt.envs.in_process import InProcessEnvs
from veldt.runtime.cores import allowed_cores


@pytest.mark.skipif(len(allowed_cores()) < 2, reason="each sampler needs a core")
@pytest.mark.parametrize("barrier", [[], ["--barrier"]])
def test_two_samplers_are_measured_beside_each_other(
    barrier: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--samplers", "2", "--num-envs", "2", "--seconds", "0.2"]
    main(["bench", "sampling", "--env", "CartPole-v1", "--recipe", "a2c", "--json", *size, *barrier])
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    (name,) = metrics
    assert name == f"2 samplers, {'waiting for each other' if barrier else 'free of each other'}"
    assert metrics[name]["sps"] > 0.0


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
