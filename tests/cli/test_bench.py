"""`veldt bench` with several samplers."""

from __future__ import annotations

import json

import pytest

from veldt.cli import main
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
