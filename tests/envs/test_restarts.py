"""With on_env_error="restart" one env's trajectory is interrupted and begins a new episode; no other env changes."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
from slots import RUN_SEED, copy_of, hashing_policy, kill_child, make, phases, settings_for, stop_child

from faulty_envs import Failing, NotDeterministic
from veldt.envs.seeding import episode_seed
from veldt.envs.spec import ActionSpec
from veldt.envs.worker_handle import WorkerHandle
from veldt.errors import EnvError
from veldt.runtime import process_state
from veldt.runtime.messages import unpack
from veldt.sampling.episodes import EpisodeTracker

POLICY = hashing_policy(ActionSpec("discrete", sizes=(5,), start=(0,)))
HORIZON, WIDTH, LENGTH, SLOTS = 6, 4, 10, 4
IN_PROCESS = ["raise", "nan observation", "nan reward", "shape"]
CASES = [(how, 0) for how in IN_PROCESS] + [(how, 2) for how in (*IN_PROCESS, "hang", "exit", "kill")]

Slots = list[dict[str, np.ndarray]]


def play(
    how: str,
    seeds: list[int],
    at: int,
    processes: int,
    resets: str = "mid-batch",
    random_start_steps: int = 0,
    slots: int = SLOTS,
) -> tuple[Slots, int, list[str]]:
    """All slots, the number of episodes and the notes of envs of which those with these seeds fail in step `at`."""
    env = functools.partial(Failing, how, seeds, at, lengths=[LENGTH])
    settings = settings_for(
        env,
        num_envs=WIDTH,
        env_timeout=1.0 if how == "hang" else 20.0,  # a busy machine is not a hanging environment
        resets=resets,
        on_env_error="restart",
        random_start_steps=random_start_steps,
    )
    envs = make(
        settings,
        HORIZON,
        groups=2,
        processes=processes,
        actions_until=lambda b, t: tracker.actions_until(envs.trajectory, b, t),
    )
    copies, games = [], 0
    try:
        tracker = EpisodeTracker(WIDTH, envs.start())
        for slot in phases(envs, POLICY, slots, resets):
            copies.append(copy_of(slot))
            games += len(tracker.add(slot))
        notes = envs.notes()  # not in between: there, resets may be under way
    finally:
        envs.close()
    return copies, games, notes


def check_others(slots: Slots, undisturbed: Slots, failing_envs: list[int]) -> None:
    others = [b for b in range(WIDTH) if b not in failing_envs]
    for phase, (slot, before) in enumerate(zip(slots, undisturbed, strict=True)):
        for name in slot:
            one, two = slot[name], before[name]
            same = (one[others], two[others]) if one.ndim == 1 else (one[:, others], two[:, others])
            np.testing.assert_array_equal(*same, f"{name}, slot {phase}")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("at", [1, 4, 7])
@pytest.mark.parametrize(("how", "processes"), CASES)
def test_a_failed_step_is_masked(how: str, processes: int, at: int) -> None:
    failing, seed = 1, episode_seed(RUN_SEED, 1, 0)
    slots, games, notes = play(how, [seed], at, processes)
    undisturbed, _, none = play(how, [], at, 0)
    assert none == [] and len(notes) == 1 and f"env {failing} (seed {seed})" in notes[0], notes
    phase, t = divmod(at - 1, HORIZON)
    failed = slots[phase]
    # The failed step is no step of the episode: nothing in it may be learned from, and what leads to it ends before.
    assert not failed["valid"][t, failing] and failed["reward"][t, failing] == 0
    assert not any(
        failed[name][t, failing] for name in ("terminated", "truncated", "life_lost", "interrupted")
    )
    cuts = np.argwhere(failed["interrupted"]).tolist()
    assert cuts == ([[t - 1, failing]] if t > 0 else [])
    assert not any(slot["interrupted"].any() for slot in (*slots[:phase], *slots[phase + 1 :]))
    # The row after it begins the next episode, from its own seed.
    assert failed["episode_step"][t + 1, failing] == 0 and failed["episode"][t + 1, failing] == 1
    assert not failed["is_last"][t + 1, failing]
    assert failed["observation/"][t + 1, failing, 0] == episode_seed(RUN_SEED, failing, 1) % 2**20
    assert slots[-1]["restarts"].tolist() == [0, 1, 0, 0]
    check_others(slots, undisturbed, [failing])
    # Episodes that were broken off do not count.
    assert all(np.isfinite(slot["observation/"]).all() for slot in slots)
    total = sum(game_count(slot) for slot in slots)
    assert games == total


@pytest.mark.timeout(60)
@pytest.mark.parametrize("lose", [kill_child, stop_child])
def test_a_process_that_is_lost_while_its_envs_are_saved_is_replaced(
    lose: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_state, "STOPPED_S", 0.3)
    lost: list[str] = []
    send = WorkerHandle.send

    def send_and_lose(handle: WorkerHandle, message: bytes) -> None:
        if not lost and unpack(message)[0]["call"] == "save" and handle.index == 1:
            lost.append("env process 1")
            stop_child("env process 1")  # it has work, and does not answer, however late it is killed
            send(handle, message)
            if lose is kill_child:
                kill_child("env process 1")
        else:
            send(handle, message)

    monkeypatch.setattr(WorkerHandle, "send", send_and_lose)
    env = functools.partial(Failing, "raise", [], 1, lengths=[LENGTH])
    settings = settings_for(env, num_envs=WIDTH, env_timeout=1000.0, on_env_error="restart")
    envs = make(settings, HORIZON, processes=2, actions_until=lambda b, t: np.zeros(0, np.int64))
    try:
        envs.start()
        envs.save()
        notes = envs.notes()
        next(phases(envs, POLICY, 1))
    finally:
        envs.close()
    assert lost and len(notes) == 1 and notes[0].endswith("it was restarted"), notes


def game_count(slot: dict[str, np.ndarray]) -> int:
    return int(((slot["terminated"] | slot["truncated"]) & slot["valid"]).sum())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("resets", ["mid-batch", "wait"])
@pytest.mark.parametrize(
    ("how", "processes"), [case for case in CASES if case[0] not in ("nan reward", "kill")]
)
def test_a_failed_reset_skips_that_episode(how: str, processes: int, resets: str) -> None:
    failing = 2
    slots, games, notes = play(how, [episode_seed(RUN_SEED, failing, 1)], 0, processes, resets)
    undisturbed, undisturbed_games, _ = play(how, [], 0, 0, resets)
    assert len(notes) == 1 and "env 2 " in notes[0], notes
    assert slots[-1]["restarts"].tolist() == [0, 0, 1, 0]
    check_others(slots, undisturbed, [failing])
    episodes = np.concatenate([slot["episode"][:, failing] for slot in slots])
    assert 0 in episodes and 1 not in episodes[episodes != 0][1:] and 2 in episodes
    first = [slot["observation/"][slot["episode_step"] == 0][:, 0] for slot in slots]
    assert episode_seed(RUN_SEED, failing, 2) % 2**20 in np.concatenate(first)
    # No episode was broken off, so all of them are there.
    assert games == undisturbed_games and not any(slot["interrupted"].any() for slot in slots)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("how", "processes", "random_start_steps"),
    [
        ("raise", 0, 0),
        ("nan observation", 0, 0),
        ("raise", 2, 0),
        ("raise", 0, 30),
        ("nan observation", 0, 30),
        ("nan reward", 2, 30),
    ],
)
def test_a_failed_start(how: str, processes: int, random_start_steps: int) -> None:
    seeds, at = [episode_seed(RUN_SEED, 3, 0)], 1 if random_start_steps else 0
    slots, _, notes = play(how, seeds, at, processes, random_start_steps=random_start_steps)
    assert len(notes) == 1 and "failed at its start and was restarted" in notes[0], notes
    assert slots[0]["episode"][0, 3] == 1 and slots[0]["episode_step"][0, 3] == 0
    check_others(slots, play(how, [], at, 0, random_start_steps=random_start_steps)[0], [3])


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("how", "processes"), [("raise", 0), ("exit", 1), ("raise", 1)])
def test_several_envs_fail_in_the_same_step(how: str, processes: int) -> None:
    failing_envs = [0, 2, 3]
    slots, _, notes = play(how, [episode_seed(RUN_SEED, b, 0) for b in failing_envs], 3, processes)
    assert len(notes) == 3
    assert slots[-1]["restarts"].tolist() == [1, 0, 1, 1]
    assert not slots[0]["valid"][2, failing_envs].any() and slots[0]["interrupted"][1, failing_envs].all()
    check_others(slots, play(how, [], 3, 0)[0], failing_envs)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("how", "processes"), [("raise", 0), ("nan observation", 0), ("exit", 2)])
def test_an_env_that_fails_again_ends_the_run(how: str, processes: int) -> None:
    """Else the env would be restarted for ever."""
    seeds = [episode_seed(RUN_SEED, 1, episode) for episode in range(100)]
    with pytest.raises(EnvError, match="env 1 "):
        play(how, seeds, 0, processes)


class NotDeterministicNeighbours(Failing, NotDeterministic):
    """Fails like `Failing`; the others cannot be rebuilt from their actions."""


@pytest.mark.timeout(60)
def test_envs_of_the_same_process_that_cannot_be_rebuilt_are_interrupted_too() -> None:
    """Their process died with the failing env, and their next rows belong to other episodes."""
    env = functools.partial(NotDeterministicNeighbours, "exit", [episode_seed(RUN_SEED, 1, 0)], 3)
    settings = settings_for(env, num_envs=WIDTH, on_env_error="restart")
    envs = make(
        settings,
        HORIZON,
        groups=1,
        processes=2,
        actions_until=lambda b, t: tracker.actions_until(envs.trajectory, b, t),
    )
    try:
        tracker = EpisodeTracker(WIDTH, envs.start())
        (slot,) = (copy_of(slot) for slot in phases(envs, POLICY, 1))
        notes = envs.notes()
    finally:
        envs.close()
    assert np.argwhere(slot["interrupted"]).tolist() == [[1, 0], [1, 1]]
    assert np.argwhere(~slot["valid"]).tolist() == [[2, 0], [2, 1]]
    assert slot["restarts"].tolist() == [0, 1, 0, 0]
    assert any("env 0 did not repeat" in note for note in notes)


@pytest.mark.timeout(60)
def test_a_process_that_dies_between_steps_is_replaced() -> None:
    """All its envs are rebuilt to the state of the first row at their next command."""
    env = functools.partial(Failing, "raise", [], 3, lengths=[LENGTH])
    settings = settings_for(env, num_envs=WIDTH, on_env_error="restart")
    envs = make(
        settings,
        HORIZON,
        processes=2,
        actions_until=lambda b, t: tracker.actions_until(envs.trajectory, b, t),
    )
    try:
        tracker = EpisodeTracker(WIDTH, envs.start())
        slots = []
        for slot in phases(envs, POLICY, SLOTS):
            tracker.add(slot)
            slots.append(copy_of(slot))
            if len(slots) == 1:
                kill_child("env process 0")
                envs.save()
        notes = envs.notes()
    finally:
        envs.close()
    assert len(notes) == 1 and "killed by SIGKILL" in notes[0] and "it was restarted" in notes[0], notes
    restarted = np.flatnonzero(slots[-1]["restarts"])
    assert len(restarted) == 1
    check_others(slots, play("raise", [], 3, 0)[0], restarted.tolist())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize(("how", "processes"), [("raise", 0), ("nan reward", 0), ("raise", 2), ("exit", 1)])
def test_an_environment_that_fails_in_every_episode_is_not_restarted_for_ever(
    how: str, processes: int, step: int
) -> None:
    seeds = [episode_seed(RUN_SEED, 1, episode) for episode in range(100)]
    with pytest.raises(EnvError, match=r"env 1 .*failed in ten episodes in a row"):
        play(how, seeds, step, processes, slots=20)
    # An episode that ends between the failures shows that the environment works.
    _, _, notes = play(how, seeds[::2], step, processes, slots=24)
    assert len(notes) > 10
