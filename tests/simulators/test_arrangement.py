"""What is chosen where the settings leave it open, and what cannot be had as asked."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from environments import Failing, Slow, unmakeable
from veldt.errors import SimulatorError, UsageError
from veldt.simulators import choose
from veldt.simulators.settings import AtariConfig, SimulationConfig
from veldt.simulators.source import resolve


def plan(env: Any = "CartPole-v1", accelerators: int = 0, **simulation: Any) -> choose.Plan:
    return choose.plan(resolve(env), SimulationConfig(**simulation), AtariConfig(), accelerators)


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
@pytest.mark.parametrize("simulators", [1, 2, 3, 16])
@pytest.mark.parametrize("alternate", ["auto", "on", "off"])
@pytest.mark.parametrize("accelerators", [0, 1])
def test_what_is_chosen_can_be_asked_for(
    cores: int, simulators: int, alternate: str, accelerators: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a run can be resumed from its resolved settings."""
    monkeypatch.setattr(choose, "allowed_cores", lambda: list(range(cores)))
    monkeypatch.setattr(choose, "worker_cores", lambda processes, accelerators: list(range(processes)))
    asked: dict[str, Any] = {"simulators": "workers", "num_simulators": simulators, "alternate": alternate}
    if alternate == "on" and simulators == 1:
        with pytest.raises(UsageError, match="--alternate on needs at least 2 simulators"):
            plan(accelerators=accelerators, **asked)
        return
    chosen = plan(accelerators=accelerators, **asked)
    assert 1 <= chosen.processes <= simulators and chosen.processes % chosen.groups == 0
    assert chosen.groups == 2 or alternate != "on"
    assert chosen.groups == 1 or alternate != "off"
    resolved = chosen.resolve(SimulationConfig(**asked))
    again = choose.plan(resolve("CartPole-v1"), resolved, AtariConfig(), accelerators)
    assert (again.backend, again.processes, again.groups) == ("workers", chosen.processes, chosen.groups)


def test_odd_processes_cannot_alternate() -> None:
    with pytest.raises(UsageError, match="--alternate on needs an even number of processes: --processes 4"):
        plan(simulators="workers", processes=3, alternate="on")


def test_the_cheap_environment_stays_and_the_expensive_one_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "allowed_cores", lambda: [0, 1])
    monkeypatch.setattr(choose, "time_hand_over", lambda: 30e-6)
    for step, backend in ((1e-6, "in-process"), (1e-3, "workers")):
        monkeypatch.setattr(choose, "time_step", lambda source, atari, step=step: step)
        chosen = plan()
        assert chosen.backend == backend and f"{step * 1e6:.0f} µs" in chosen.reason


def test_the_measurement_steps_the_environment() -> None:
    source = resolve(functools.partial(Slow, 0.0))
    assert 0 < choose.time_step(source, AtariConfig()) < 1


def test_an_environment_that_cannot_be_made_is_named() -> None:
    with pytest.raises(
        SimulatorError, match=r"environments:unmakeable could not be made.*no licence"
    ) as caught:
        choose.probe_spec(resolve(unmakeable), AtariConfig())
    assert "Traceback" in caught.value.details


def test_one_that_fails_while_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named; where restarts are asked for, it is put where it can be restarted."""
    monkeypatch.setattr(choose, "allowed_cores", lambda: [0, 1])
    env = functools.partial(Failing, "raise", [0], 2)
    with pytest.raises(SimulatorError, match=r"its speed was measured.*the wheel came off"):
        plan(env)
    assert plan(env, on_env_error="restart").backend == "workers"


def test_only_atari_is_atari() -> None:
    with pytest.raises(UsageError, match="--simulators atari is for Atari games, and CartPole-v1 is none"):
        plan(simulators="atari")
