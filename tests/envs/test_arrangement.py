"""The arrangement of envs that `auto` chooses, and settings that are refused."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slots import make, settings_for

from faulty_envs import Failing, Slow, unmakeable
from veldt.envs import arrangement
from veldt.envs.in_process import split
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.envs.source import resolve
from veldt.envs.workers import deal
from veldt.errors import EnvError, UsageError


def plan(env: Any = "CartPole-v1", accelerators: int = 0, **simulation: Any) -> arrangement.Arrangement:
    return arrangement.arrange(resolve(env), EnvConfig(**simulation), AtariConfig(), accelerators)


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
@pytest.mark.parametrize("envs", [1, 2, 3, 16])
@pytest.mark.parametrize("alternate", ["auto", "on", "off"])
@pytest.mark.parametrize("accelerators", [0, 1])
def test_the_chosen_arrangement_can_be_requested(
    cores: int, envs: int, alternate: str, accelerators: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a run can be resumed from its resolved settings."""
    monkeypatch.setattr(arrangement, "allowed_cores", lambda: list(range(cores)))
    monkeypatch.setattr(arrangement, "worker_cores", lambda processes, accelerators: list(range(processes)))
    asked: dict[str, Any] = {"env_backend": "workers", "num_envs": envs, "alternate": alternate}
    if alternate == "on" and envs == 1:
        with pytest.raises(UsageError, match="--alternate on needs at least 2 envs"):
            plan(accelerators=accelerators, **asked)
        return
    chosen = plan(accelerators=accelerators, **asked)
    assert 1 <= chosen.processes <= envs
    assert chosen.groups == 2 or alternate != "on"
    assert chosen.groups == 1 or alternate != "off"
    resolved = chosen.resolve(EnvConfig(**asked))
    again = arrangement.arrange(resolve("CartPole-v1"), resolved, AtariConfig(), accelerators)
    assert (again.backend, again.processes, again.groups) == ("workers", chosen.processes, chosen.groups)


@pytest.mark.parametrize(
    ("accelerators", "processes", "groups"), [(0, 0, 1), (0, 4, 1), (0, 3, 2), (1, 0, 2), (1, 4, 2)]
)
def test_groups_alternate_where_inference_runs_beside_the_envs(
    accelerators: int, processes: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an accelerator, or on one of the four cores that no env process takes."""
    monkeypatch.setattr(arrangement, "allowed_cores", lambda: list(range(4)))
    monkeypatch.setattr(arrangement, "worker_cores", lambda processes, accelerators: list(range(processes)))
    chosen = plan(accelerators=accelerators, env_backend="workers", num_envs=16, processes=processes)
    assert chosen.groups == groups


@given(data=st.data(), groups=st.integers(1, 3), width=st.integers(3, 40))
def test_envs_of_each_group_are_divided_evenly_among_processes(
    data: st.DataObject, groups: int, width: int
) -> None:
    """All envs are divided; in all groups and in each, the processes' numbers of envs differ by at most one."""
    processes = data.draw(st.integers(1, width))
    parts = split(width, groups)
    shares = deal(parts, processes)
    assert len(shares) == processes
    for group, part in enumerate(parts):
        dealt = [b for share in shares for b in range(share[group].start, share[group].stop)]
        assert dealt == list(range(part.start, part.stop))
        sizes = [share[group].stop - share[group].start for share in shares]
        assert max(sizes) - min(sizes) <= 1
    totals = [sum(part.stop - part.start for part in share) for share in shares]
    assert min(totals) >= 1 and max(totals) - min(totals) <= 1


def test_a_cheap_environment_runs_in_process_and_an_expensive_one_in_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrangement, "allowed_cores", lambda: [0, 1])
    monkeypatch.setattr(arrangement, "time_message", lambda: 30e-6)
    for step, text, backend in ((1e-6, "1 µs", "in-process"), (1e-3, "1.0 ms", "workers")):
        monkeypatch.setattr(arrangement, "time_step", lambda source, atari, timeout, step=step: step)
        chosen = plan()
        assert chosen.backend == backend and f"a step takes {text}, " in chosen.reason


def test_the_measurement_steps_the_environment() -> None:
    source = resolve(functools.partial(Slow, 0.0))
    assert 0 < arrangement.time_step(source, AtariConfig(), timeout=10.0) < 1


def test_an_environment_with_slow_resets_is_not_reset_for_long(tmp_path: Path) -> None:
    resets = tmp_path / "resets"

    class SlowResets(Slow):
        def reset(self, **options: Any) -> Any:
            time.sleep(0.6)
            with resets.open("a") as file:
                file.write("reset\n")
            return super().reset(**options)

        def step(self, action: Any) -> Any:
            observation, reward, _, truncated, info = super().step(action)
            return observation, reward, True, truncated, info

    arrangement.time_step(resolve(lambda: SlowResets(0.0)), AtariConfig(), timeout=10.0)
    assert 0 < len(resets.read_text().split()) <= 4, (
        "with episodes of one step, each of five chunks has two resets"
    )


def test_an_environment_that_cannot_be_made_is_named() -> None:
    with pytest.raises(EnvError, match=r"faulty_envs:unmakeable could not be made.*no licence") as caught:
        arrangement.probe_spec(resolve(unmakeable), AtariConfig())
    assert "Traceback" in caught.value.details


def test_an_environment_that_fails_while_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named; where restarts are asked for, it is put where it can be restarted."""
    monkeypatch.setattr(arrangement, "allowed_cores", lambda: [0, 1])
    env = functools.partial(Failing, "raise", [0], 2)
    with pytest.raises(EnvError, match=r"its speed was measured.*the wheel came off"):
        plan(env)
    assert plan(env, on_env_error="restart").backend == "workers"


@pytest.mark.alone
def test_running_workers_leave_no_named_shared_memory() -> None:
    """So no kill can leave shared memory behind."""
    before = set(Path("/dev/shm").iterdir())
    envs = make(settings_for("CartPole-v1"), 4, groups=2, processes=2)
    try:
        assert set(Path("/dev/shm").iterdir()) <= before
        envs.start()
    finally:
        envs.close()
