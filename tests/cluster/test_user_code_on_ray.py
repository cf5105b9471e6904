"""An environment that ends the process of a role on Ray is named, as on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import veldt
from veldt.errors import RoleError, VeldtError

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.timeout(240)]
SETTINGS: dict[str, Any] = {
    "num_envs": 2,
    "actors": 1,
    "hidden": (16,),
    "steps": 100_000,
    "seed": 3,
    "quiet": True,
    "evaluator_share": 0.0,
}
NAMED = r"environment faulty_envs:ends_process, env \d+ \(seed \d+\)"
CRASHED = rf"the actor failed \({NAMED} ended its process in step \d+: the process crashed in native code\)"


def test_an_environment_that_crashes(
    in_tmp: Path, nothing_left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENDING", "segfault step 1000")  # later than the probe in this process
    with pytest.raises(VeldtError, match=CRASHED) as caught:
        veldt.train("apex-dqn", env="faulty_envs:ends_process", run_dir="run", cluster="local", **SETTINGS)
    assert isinstance(caught.value, RoleError) and "faulty_envs.py" in caught.value.details
