"""The record of running user code names env, seed and step in every call of an environment."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
from slots import hashing_policy, phases, settings_for

from environments import Reset, Scripted, Step
from veldt.envs.action_replay import Unfinished
from veldt.envs.arrangement import Arrangement, make_vector_envs, probe_spec, time_step
from veldt.envs.in_process import VectorEnvs
from veldt.envs.settings import AtariConfig
from veldt.envs.source import resolve
from veldt.envs.stepper_settings import StepperSettings
from veldt.runtime import activity

TOOK = "ended its process"
NAME = "environment test_activity:Told"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[mmap.mmap]:
    """The record that this process writes, for a test to read."""
    memory = mmap.mmap(-1, activity.SIZE)
    monkeypatch.setattr(activity, "_memory", memory)
    monkeypatch.setattr(Told, "memory", memory, raising=False)
    monkeypatch.setattr(Told, "wrong", [])
    monkeypatch.setattr(Told, "made", 0)
    monkeypatch.setattr(Told, "suffix", "")
    monkeypatch.setattr(Told, "numbered", True)
    yield memory
    assert Told.wrong == []
    assert activity.last(memory) is None and not activity._open


class Told(Scripted):
    """Compares each call with the record of it; `wrong` has the differences."""

    memory: mmap.mmap
    wrong: ClassVar[list[tuple[str, str]]] = []
    made = 0
    suffix = ""
    numbered = True
    fails: Any = None

    def __init__(self) -> None:
        super().__init__([(3, "terminated"), (5, "truncated"), (9, "terminated")])
        self._number = Told.made
        Told.made += 1
        self._is("when it was made", None)

    def _is(self, where: str, seed: int | None) -> None:
        doing = activity.last(self.memory)
        said = "nothing" if doing is None else doing.what
        if not self.numbered and seed is None:
            return
        number = f", env {self._number}" if self.numbered and self._number < 10 else ""
        named = f"{NAME}{number} (seed {seed})"
        if seed is None or self._number >= 10:  # a new one in the place of another
            named, said = NAME, f"{NAME} {TOOK}{said.partition(TOOK)[2]}"
        if said != f"{named} {TOOK} {where}{self.suffix}":
            self.wrong.append((said, f"{named} {TOOK} {where}{self.suffix}"))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self._is("in a reset", seed)
        return super().reset(seed=seed)

    def step(self, action: Any) -> Step:
        self._is(f"in step {self._t}", self._seed)
        if self.fails == (self._number, self._t):
            Told.fails, Told.made = None, 10
            raise RuntimeError("the wheel came off")
        return super().step(action)

    def close(self) -> None:
        self._is("when it was closed", None)


def made(settings: StepperSettings, groups: int) -> VectorEnvs:
    Told.numbered = False
    spec = probe_spec(settings.source, settings.atari)
    Told.numbered, Told.made = True, 0
    return make_vector_envs(settings, spec, 7, Arrangement("in-process", 0, groups, (), "for a test"))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("resets", ["mid-batch", "wait"])
def test_each_call_of_an_env_is_recorded(memory: mmap.mmap, groups: int, resets: str) -> None:
    settings = settings_for(Told, num_envs=5, resets=resets, random_start_steps=20)
    envs = made(settings, groups)
    try:
        envs.start()
        slot = envs.trajectory
        for _ in phases(envs, hashing_policy(slot.spec.action), 6, resets):
            assert activity.last(memory) is None, "between two steps nothing of the user's is run"
        actions = [np.zeros(episode_step, np.int64) for episode_step in slot.episode_step[0]]
        envs.rebuild({b: Unfinished(actions=actions[b]) for b in range(5)})
        for _ in phases(envs, hashing_policy(slot.spec.action), 3, resets):
            pass
    finally:
        envs.close()


def test_envs_that_are_restarted(memory: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Told, "fails", (2, 2))
    envs = made(settings_for(Told, num_envs=3, on_env_error="restart"), 1)
    try:
        envs.start()
        for _ in phases(envs, hashing_policy(envs.trajectory.spec.action), 4):
            pass
        assert envs.trajectory.restarts.sum() == 1
    finally:
        envs.close()


def test_a_measurement_is_recorded(memory: mmap.mmap) -> None:
    Told.numbered, Told.suffix = False, " when its speed was measured with random actions"
    time_step(resolve(Told), AtariConfig(), 20.0)


def test_nested_activities(memory: mmap.mmap) -> None:
    """An evaluation in the midst of training."""
    outer = activity.Record("environment a", width=3, first=4)
    outer.busy[0] = 1
    with activity.running("environment b"):
        doing = activity.last(memory)
        assert doing == activity.Doing("environment b", "when it was made", False, True, "environment b")
    doing = activity.last(memory)
    code = "environment a, env 4 (seed 0)"
    assert doing == activity.Doing(code, "when it was made", False, True, "environment a")
    outer.close()


@pytest.mark.parametrize("began", [0, -3, activity.RESETTING, activity.MAKING])
def test_code_is_suspected_until_one_of_its_episodes_has_ended(memory: mmap.mmap, began: int) -> None:
    record = activity.Record("environment a", width=2, first=4)
    record.busy[0] = 1
    record.episodes[1] = 0, began
    record.progress[0], record.progress[2] = 1, 0 if began < -10 else 40
    doing = activity.last(memory)
    assert doing is not None and doing.suspect == "environment a"
    in_a_step = began > -10
    assert doing.moment == (f"environment a, env 5 (seed 0), in step {39 - began}" if in_a_step else "")
    record.progress[2] = 41
    record.episodes[1, 1] = began if began < -10 else 7
    doing = activity.last(memory)
    assert doing is not None and doing.suspect == ""
    record.close()


def test_more_activities_than_fit(memory: mmap.mmap) -> None:
    """Then it is not recorded, and nothing fails."""
    record = activity.Record("environment a", width=activity.SIZE // 8, first=0)
    record.busy[0] = record.episodes[1, -1] = 1
    assert activity.last(memory) is None
    record.close()


def test_a_name_that_is_too_long(memory: mmap.mmap) -> None:
    with activity.running("environment " + "ä" * 1000, "when it was made"), activity.training_in("r" * 9999):
        doing = activity.last(memory)
        assert doing is not None and doing.what.endswith(f"{TOOK} when it was made")
        assert activity.run_of(memory).startswith("rrr")
    assert activity.run_of(memory) == ""
