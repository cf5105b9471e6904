"""A start is a seed and actions that lead there, wherever and by whatever they are played; points are uniform."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from environments import Scripted
from veldt.envs.settings import AtariConfig
from veldt.envs.source import EnvSource, resolve
from veldt.envs.step_env import make_step_env
from veldt.errors import EnvError, UsageError
from veldt.evaluation import starts_file
from veldt.evaluation.starts import Starts, digest_of, draw_points, make_starts, read_starts

ATARI = AtariConfig(no_ops=7, sticky_actions=0.25)


def made(
    path: Path, source: EnvSource, lengths: list[int], atari: AtariConfig = ATARI, timeout: float = 60.0
) -> Starts:
    """Starts after random actions, written to `path`."""
    env = make_step_env(source, atari)
    spec = env.spec
    env.close()
    rng = np.random.default_rng(3)
    beginnings = [(11 + k, spec.action.sample(rng, length)) for k, length in enumerate(lengths)]
    starts = make_starts(
        path, source, atari, beginnings, made={"by": "test"}, versions={"veldt": "0"}, timeout=timeout
    )
    starts.write()
    return starts


@pytest.mark.parametrize("preprocessing", ["104x80", "84x84"])
def test_a_start_of_an_episode_is_the_emulators_state(tmp_path: Path, preprocessing: Any) -> None:
    """Also the second time, after other episodes, and whatever frames are made of it."""
    source = resolve("ALE/SpaceInvaders-v5")
    starts = made(tmp_path / "starts", source, [120, 0, 37])
    atari = AtariConfig(no_ops=7, sticky_actions=0.25, preprocessing=preprocessing, frame_stack=2)
    frames = []
    for order in (starts.each, starts.each[::-1]):
        env = make_step_env(source, atari)
        rows = [np.zeros((1, *env.spec.observation[""].shape), np.uint8)]
        for start in order:
            env.reset(start.seed, rows, 0)
            score = sum(env.step(int(action), rows, 0)[0] for action in start.actions)
            assert digest_of(env.save(), rows, score) == start.digest
            frames.append((start.seed, rows[0].tobytes()))
    assert len(set(frames)) == len(starts) and len({start.digest for start in starts.each}) == len(starts)


@pytest.mark.parametrize(
    ("env", "lengths"),
    [
        ("CartPole-v1", [5, 0, 3]),
        ("Pendulum-v1", [90, 1]),
        ("environments:dictionary", [3, 0]),
        ("environments:multi_discrete", [5, 0]),
    ],
)
def test_starts_round_trip_through_a_file(env: str, lengths: list[int], tmp_path: Path) -> None:
    starts = made(tmp_path / "starts", resolve(env), lengths)
    again = read_starts(tmp_path / "starts")
    assert again.lengths == lengths
    for one, other in zip(starts.each, again.each, strict=True):
        assert (one.seed, one.digest) == (other.seed, other.digest)
        assert one.actions.dtype == other.actions.dtype and np.array_equal(one.actions, other.actions)
    for name in ("path", "env", "env_kwargs", "atari", "made", "versions"):
        assert getattr(starts, name) == getattr(again, name)
    again.refuse_other(
        resolve(env), ATARI, make_step_env(resolve(env), ATARI).spec.action
    )  # it is of the same


def test_a_digest_depends_on_observations_and_rewards_or_on_the_emulators_state() -> None:
    seen = [np.arange(3.0), np.arange(2)]
    digest = digest_of(None, seen, 1.0)
    assert digest == digest_of(None, [array.copy() for array in seen], 1.0)
    assert digest != digest_of(None, seen, 1.5)
    assert digest != digest_of(None, [seen[0], seen[1] + 1], 1.0)
    assert digest_of(b"state", seen, 1.0) == digest_of(b"state", [], 1.0)


def test_points_are_uniform_over_an_episodes_steps() -> None:
    rng = np.random.default_rng(0)
    lengths = [1, 2, 7]
    drawn = np.array([draw_points(lengths, rng) for _ in range(7000)])
    for length, points in zip(lengths, drawn.T, strict=True):
        counts = np.bincount(points, minlength=length)
        assert len(counts) == length  # never the end, where the episode is over
        assert (abs(counts - 7000 / length) < 5 * np.sqrt(7000 / length)).all()


class Counting(Scripted):
    """Not deterministic: what it shows depends on how often it was reset."""

    def __init__(self) -> None:
        super().__init__([(50, "terminated")])
        self._resets = 0

    def reset(self, **kwargs: Any) -> Any:
        self._resets += 1
        return super().reset(**kwargs)

    def _observation(self, action: Any) -> np.ndarray:
        return super()._observation(action) + np.float32(self._resets)


class Shrinking(Scripted):
    """Not deterministic: episodes become shorter."""

    def __init__(self) -> None:
        super().__init__([(50, "terminated")])
        self._left = 50

    def reset(self, **kwargs: Any) -> Any:
        result = super().reset(**kwargs)
        self._left -= 23
        self._length = self._left
        return result


class RandomReward(Scripted):
    """Not deterministic: its rewards are random."""

    def __init__(self) -> None:
        super().__init__([(50, "terminated")])

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, float(np.random.default_rng().normal()), *rest


@pytest.mark.parametrize("env", ["faulty_envs:not_deterministic", Counting, Shrinking, RandomReward])
def test_an_environment_that_is_not_deterministic_is_refused(env: Any, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"is not deterministic: the same seed and actions lead to other observations"
    ):
        made(tmp_path / "starts", resolve(env), [20, 10])
    assert not (tmp_path / "starts").exists()


def test_environments_that_fail_or_hang_when_replayed_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        EnvError, match="failed in step 0 when its starts were played again: ValueError: illegal move"
    ):
        made(tmp_path / "starts", resolve("faulty_envs:fails_when_replayed"), [20])
    hanging = resolve(lambda: gymnasium.wrappers.TransformReward(Sleeping(), float))
    with pytest.raises(EnvError, match=r"no answer within 0.3 s \(--env-timeout\)"):
        made(tmp_path / "starts", hanging, [20], timeout=0.3)


class Sleeping(Scripted):
    """Its third step takes for ever."""

    def __init__(self) -> None:
        super().__init__([(50, "terminated")])

    def step(self, action: Any) -> Any:
        if self._t == 2:
            import time

            time.sleep(60)
        return super().step(action)


@pytest.fixture(scope="module")
def breakout(tmp_path_factory: pytest.TempPathFactory) -> Starts:
    return made(tmp_path_factory.mktemp("starts") / "starts", resolve("ALE/Breakout-v5"), [30, 3])


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "another game": (
        "ALE/Pong-v5",
        {},
        "has starts of ALE/Breakout-v5, and the run plays ALE/Pong-v5: record starts",
    ),
    "no game": ("CartPole-v1", {}, "has starts of ALE/Breakout-v5, and the run plays CartPole-v1"),
    "frame skip": (
        "ALE/Breakout-v5",
        {"frame_skip": 2},
        "was recorded with --frame-skip 4, and the run has 2",
    ),
    "sticky": ("ALE/Breakout-v5", {"sticky_actions": 0.0}, "with --sticky-actions 0.25, and the run has 0.0"),
    "actions": (
        "ALE/Breakout-v5",
        {"full_action_space": True},
        "with --full-action-space False, and the run",
    ),
    "short": (
        "ALE/Breakout-v5",
        {"max_episode_steps": 30},
        "has a start 30 steps into an episode, and the run's episodes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_starts_of_another_environment_are_refused(name: str, breakout: Starts) -> None:
    env, changes, said = REFUSED[name]
    source, atari = resolve(env), AtariConfig(**{"sticky_actions": 0.25} | changes)
    with pytest.raises(UsageError, match=said):
        breakout.refuse_other(source, atari, make_step_env(source, atari).spec.action)


def test_a_policy_keeps_its_own_preprocessing(breakout: Starts) -> None:
    atari = AtariConfig(
        sticky_actions=0.25, preprocessing="84x84", frame_stack=3, no_ops=0, max_episode_steps=31
    )
    source = resolve("ALE/Breakout-v5")
    breakout.refuse_other(source, atari, make_step_env(source, atari).spec.action)
    assert breakout.emulator(atari).no_ops == 7 and breakout.emulator(atari).frame_stack == 3


def test_starts_of_other_keyword_arguments_are_refused(tmp_path: Path) -> None:
    starts = made(tmp_path / "starts", resolve("CartPole-v1", {"sutton_barto_reward": True}), [2])
    plain = resolve("CartPole-v1")
    with pytest.raises(
        UsageError, match=r"CartPole-v1 with \{'sutton_barto_reward': True\}, and the run makes it"
    ):
        starts.refuse_other(plain, ATARI, make_step_env(plain, ATARI).spec.action)


@pytest.mark.parametrize("other", ["environments:multi_discrete", "Pendulum-v1", "Acrobot-v1"])
def test_an_environment_whose_actions_have_changed(other: str, tmp_path: Path) -> None:
    starts = made(tmp_path / "starts", resolve("environments:scripted"), [3])  # of 5 actions
    assert max(start.actions.max() for start in starts.each) > 2
    changed = make_step_env(resolve(other), ATARI).spec.action
    with pytest.raises(UsageError, match="has actions that environments:scripted does not take"):
        starts.refuse_other(resolve("environments:scripted"), ATARI, changed)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_altered_file_is_read(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("altered") / "starts"
    made(path, resolve("CartPole-v1"), [3, 5])
    whole = path.read_bytes()
    if data.draw(st.booleans()):
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    else:
        altered = bytearray(whole)
        altered[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(altered)
    with pytest.raises(
        UsageError,
        match=r"^--starts .*(is empty|is not a file of starts|altered or damaged|by a newer veldt)",
    ):
        read_starts(path)


def test_files_that_hold_no_starts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    with pytest.raises(UsageError, match="there is no such file; `veldt record-starts RUN` makes one"):
        read_starts(path)
    with pytest.raises(UsageError, match="is not a file: name the file of starts"):
        read_starts(tmp_path)
    save_file({"seed": np.zeros(3)}, path)  # as weights are
    with pytest.raises(UsageError, match="is not a file of starts"):
        read_starts(path)
    path.write_text(json.dumps({"starts": []}))
    with pytest.raises(UsageError, match="is not a file of starts, or it is damaged"):
        read_starts(path)


def test_an_empty_file_and_one_of_a_newer_format_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "starts"
    made(path, resolve("CartPole-v1"), [3])
    with safe_open(path, framework="numpy") as file:
        manifest = file.metadata()["veldt-starts"]
    assert json.loads(manifest)["env"] == "CartPole-v1" and "digests" in manifest

    none = {name: np.zeros(0, np.int64) for name in ("seed", "length", "actions")}
    known = {name: json.loads(manifest)[name] for name in ("env", "env_kwargs", "atari", "made", "versions")}
    starts_file.write_starts_file(path, none, known | {"digests": []})
    with pytest.raises(UsageError, match="has no starts: record some"):
        read_starts(path)
    starts_file.write_starts_file(path, none, {"env": "CartPole-v1"})
    with pytest.raises(UsageError, match="is not a file of starts: 'digests'"):
        read_starts(path)
    monkeypatch.setattr(starts_file, "FORMAT", 2)
    starts_file.write_starts_file(path, none, known)
    monkeypatch.undo()
    with pytest.raises(UsageError, match=r"newer veldt \(format 2, this one reads up to 1\): upgrade veldt"):
        read_starts(path)


@pytest.mark.parametrize(
    "change",
    [
        {"env": 7},
        {"env_kwargs": []},
        {"atari": {"frame_skip": 4}},
        {"digests": 3},
        {"made": None},
    ],
)
def test_starts_that_are_signed_but_not_as_veldt_writes_them(change: dict[str, Any], tmp_path: Path) -> None:
    path = write_signed(tmp_path, {}, change)
    with pytest.raises(UsageError, match="is not a file of starts"):
        read_starts(path)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": np.array([-1])},
        {"seed": np.array([np.inf])},
        {"length": np.array([-3])},
        {"length": np.array([2**62])},
        {"actions": np.array(3)},
    ],
)
def test_starts_with_numbers_that_are_none(change: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = write_signed(tmp_path, change, {})
    with pytest.raises(UsageError, match="is not a file of starts"):
        read_starts(path)


def test_starts_without_end_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(UsageError, match="cannot be read: it is larger than"):
        read_starts(path)


def write_signed(directory: Path, arrays: dict[str, np.ndarray], manifest: dict[str, Any]) -> Path:
    """Writes a file of one start with changes, under a checksum of them."""
    path = directory / "starts"
    right = {"seed": np.array([1]), "length": np.array([3]), "actions": np.array([0, 1, 0])}
    described: dict[str, Any] = {key: {} for key in ("env_kwargs", "atari", "made", "versions")}
    starts_file.write_starts_file(
        path, right | arrays, described | {"env": "CartPole-v1", "digests": ["x"]} | manifest
    )
    return path
