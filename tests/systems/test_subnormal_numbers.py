"""Numbers too small for a full mantissa are 0 while a run trains, and the process's own again afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_state import SMALL

import veldt
from veldt.systems.learner import Learner


def flushed() -> bool:
    return float(torch.tensor(1e-310, dtype=torch.float64) * 0.5) == 0.0


@pytest.mark.parametrize("fails", [False, True])
def test_only_while_a_run_trains(fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, update = [], Learner.update

    def watched(self: Learner, *arguments: Any) -> Any:
        seen.append(flushed() and float(np.float32(1e-40) * np.float32(0.5)) == 0.0)
        if fails:
            raise RuntimeError("it failed")
        return update(self, *arguments)

    monkeypatch.setattr(Learner, "update", watched)
    settings = SMALL | {"env": "CartPole-v1", "steps": 128, "simulators": "in-process"}
    assert not flushed()
    if fails:
        with pytest.raises(RuntimeError):
            veldt.train("ppo", run_dir=tmp_path / "run", quiet=True, **settings)
    else:
        veldt.train("ppo", run_dir=tmp_path / "run", quiet=True, **settings)
    assert seen and all(seen)
    assert not flushed()
