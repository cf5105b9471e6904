"""Steps a block of envs through a trajectory slot, with resets, checks and failures. Used by every backend."""

from __future__ import annotations

import contextlib
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from veldt.envs.action_replay import ActionPrefix, Unfinished, replay
from veldt.envs.failures import IN_A_ROW, Patience, bad_observation, bad_reward, named
from veldt.envs.seeding import DECORRELATION, derive_seed
from veldt.envs.step_env import StepEnv, make_step_env
from veldt.envs.stepper_settings import StepperSettings
from veldt.envs.trajectory import Trajectory
from veldt.errors import EnvError, described, traceback_of
from veldt.runtime.activity import CLOSING, MAKING, RESETTING

# NumPy's remark on a reward beyond float32: `_mend_numbers` finds the infinite number, and names env and step.
warnings.filterwarnings("ignore", "overflow encountered in cast", RuntimeWarning, re.escape(__name__))

_AGAIN = "failed, and again when it was restarted"
_FOR_EVER = f"{IN_A_ROW}, the last time with"


class Stepper:
    """Steps the envs `part` of the run.

    Stepping is single-threaded and in order. `progress` int64 [4] is written before an env is called, so that a waiting
    process can name an env that hangs: the env, its episode when one begins, the number of rows, and a counter of steps
    that fill no row (random start steps, replay), so that such work does not look like a hang.

    Args:
        episodes: receives each env's seed, and the number of rows when its episode began; see
            `runtime.activity.Record`. None if no process reads it.
    """

    def __init__(
        self,
        settings: StepperSettings,
        slot: Trajectory,
        part: slice,
        progress: np.ndarray,
        episodes: np.ndarray | None = None,
    ) -> None:
        self._settings, self._slot = settings, slot
        self._first, self._part = part.start, part
        self._progress, self._rows_done = progress, 0
        record = np.zeros((2, slot.width), np.int64) if episodes is None else episodes
        self._seed_of, self._began = record[0], record[1]
        self._patience = Patience()
        self._restarts_on_error = settings.envs.on_env_error == "restart"
        self._wait_reset = settings.envs.resets == "wait"
        self._discrete = slot.spec.action.kind == "discrete"
        self._float_fields = {
            index: name
            for index, (name, field) in enumerate(slot.spec.observation.items())
            if field.dtype == "float32"
        }
        self._notes: list[str] = []
        self._envs: list[StepEnv] = []
        self._step_rows = [slot.step_rows(t, part) for t in range(slot.steps)]
        for index in range(part.stop - part.start):
            self._touch(self._first + index, 0)
            try:
                self._envs.append(self._make(index))
            except Exception as error:
                failure = self._error(index, "could not be made", error)
                self.close()
                raise failure from error

    def start(self) -> dict[int, ActionPrefix]:
        """Begins the first episode of every env and plays its random start steps (section 5.2).

        Returns by env the actions that led to its first row.
        """
        prefixes = {}
        for index in range(len(self._envs)):
            try:
                prefixes[self._first + index] = self._begin(index)
            except Exception as error:
                self._replace(index, "failed at its start", error, 0)
                prefixes[self._first + index] = ActionPrefix(self._slot.action[0, :0], 0.0)
        self._slot.stack(0, self._part)
        return prefixes

    def step(self, t: int) -> None:
        """Fills row `t` of rewards and flags, and row `t + 1` of observations, from the actions in row `t`."""
        row = self._step_rows[t]
        row.clear()
        # Environments step faster with Python ints than with numpy's.
        actions: Any = row.action.tolist() if self._discrete else row.action
        rows, reward, ended = row.next_observation, row.reward, row.is_last.tolist()
        progress, envs, first = self._progress, self._envs, self._first
        progress[2] = self._rows_done = self._rows_done + 1
        index = 0
        while index < len(envs):  # a second pass only after a failure with restart
            try:
                for index in range(index, len(envs)):  # noqa: B020 - resumes after the env that failed
                    progress[0] = first + index
                    if ended[index]:
                        self._reset_step(index, t, rows)
                        continue
                    gained, terminated, truncated, life_lost = envs[index].step(actions[index], rows, index)
                    try:
                        reward[index] = +gained  # numpy would convert "1" and None, which have no sign
                    except (TypeError, ValueError, OverflowError):
                        reward[index] = _signless(gained)
                    if terminated or truncated or life_lost:
                        self._flag(index, t, terminated, truncated, life_lost)
                index += 1
            except Exception as error:
                if not ended[index]:  # else the reset has already written the episode
                    progress[1] = row.episode[index]
                self._failed(index, t, error)
                index += 1
        # A sum of squares is finite only if all numbers are: the fastest check. (A sum beyond float32 is looked into.)
        with np.errstate(over="ignore", invalid="ignore"):
            are_finite = all(math.isfinite(flat.dot(flat)) for flat in (reward, *row.next_floats))
        if not are_finite:
            self._mend_numbers(t, rows)
        self._slot.stack(t + 1, self._part)

    def reset_ended(self) -> None:
        """Wait-reset: resets the envs that are masked in the last rows, into the slot's `fresh` observations."""
        last = self._slot.steps
        self._progress[3] += 1
        rows = [array[self._part] for array in self._slot.fresh.values()]
        for index in np.flatnonzero(self._slot.is_last[last, self._part]):
            b = self._first + int(index)
            try:
                self._reset_into(int(index), rows, int(self._slot.episode[last, b]) + 1)
            except Exception as error:
                self._renew(int(index), "failed to reset", error)
                try:
                    self._reset_into(int(index), rows, int(self._progress[1]) + 1)
                except Exception as again:
                    raise self._error(int(index), _AGAIN, again) from again
            self._slot.fresh_episode[b] = self._progress[1]

    def take_notes(self) -> list[str]:
        """Returns sentences about restarts since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def save(self) -> dict[int, bytes]:
        """Returns the states of the envs that can save one."""
        states = {self._first + i: env.save() for i, env in enumerate(self._envs)}
        return {b: state for b, state in states.items() if state is not None}

    def rebuild(self, unfinished: Mapping[int, Unfinished], t: int) -> list[str]:
        """Puts every env back to row `t`. Returns sentences about episodes that could not be continued."""
        slot, notes = self._slot, []
        for index, env in enumerate(self._envs):
            b = self._first + index
            if slot.is_last[t, b]:
                continue  # its next step is a reset
            self._touch(b, int(slot.episode[t, b]))
            how = unfinished.get(b, Unfinished())
            if how.state is not None:
                env.restore(how.state)
                self._seed_of[b] = self._settings.seed(b, int(slot.episode[t, b]))
                self._began[b] = self._rows_done - slot.episode_step[t, b]
                continue
            difference = None if how.actions is None else self._replay(index, how.actions, t)
            if how.actions is None or difference is not None:
                if t > 0 and slot.valid[t - 1, b]:
                    slot.interrupted[t - 1, b] = True
                slot.is_last[t, b] = True
            if difference is not None:
                notes.append(
                    f"env {b} did not repeat its episode {slot.episode[t, b]} from its seed and actions "
                    f"({difference}): the environment has changed since, or is not deterministic, so it begins a new "
                    "episode"
                )
        slot.stack(t, self._part)
        return notes

    def close(self) -> bool:
        """Closes all envs, except those after one that hangs until a TimeoutError. Returns whether none does."""
        return all(not isinstance(self._close(index), TimeoutError) for index in range(len(self._envs)))

    def _close(self, index: int) -> Exception | None:
        """Closes an env, whose failure in it changes nothing any more, and is returned."""
        self._progress[0] = b = self._first + index
        self._began[b] = CLOSING
        try:
            self._envs[index].close()
        except Exception as error:
            return error
        return None

    def _make(self, index: int) -> StepEnv:
        b = self._first + index
        self._seed_of[b], self._began[b] = self._settings.seed(b, int(self._progress[1])), MAKING
        env = make_step_env(self._settings.source, self._settings.atari)
        if difference := self._slot.spec.difference(env.spec):
            with contextlib.suppress(Exception):  # the difference is the error to be told
                env.close()
            raise ValueError(
                f"{difference}: each environment that the function returns must have the same spaces"
            )
        return env

    def _rows(self, t: int) -> list[np.ndarray]:
        return self._slot.rows(t, self._part)

    def _touch(self, b: int, episode: int) -> None:
        self._progress[0], self._progress[1] = b, episode

    def _begin(self, index: int) -> ActionPrefix:
        """Plays the random start steps; returns those of the episode that reaches the first row."""
        b, slot, env = self._first + index, self._slot, self._envs[index]
        seed = derive_seed(self._settings.run_seed, DECORRELATION, self._settings.first + b)
        rng = np.random.Generator(np.random.Philox(seed))
        max_steps = self._settings.envs.random_start_steps
        steps = int(rng.integers(0, max_steps + 1)) if max_steps else 0
        actions = slot.spec.action.sample(rng, steps)
        begin, score, row_1 = 0, 0.0, np.empty(1, np.float32)
        self._reset(index, self._rows(0), 0)
        for step, action in enumerate(actions):
            self._tick(b)
            self._shift_history(index)
            reward, terminated, truncated, _ = env.step(action, self._rows(0), index)
            self._check_observation(self._rows(0), index)
            try:  # the same rewards as in later steps, and in float32 as there
                row_1[0] = +reward
            except (TypeError, ValueError, OverflowError):
                row_1[0] = _signless(reward)
            score += float(row_1[0])
            if not math.isfinite(score):
                raise ValueError(bad_reward(reward))
            if terminated or truncated:
                begin, score = step + 1, 0.0
                self._reset(index, self._rows(0), int(slot.episode[0, b]) + 1)
        slot.episode_step[0, b] = steps - begin
        return ActionPrefix(actions[begin:], score)

    def _reset(self, index: int, rows: list[np.ndarray], episode: int, t: int = 0) -> None:
        """Resets an env; its first observation goes to `rows`, the observations of row `t`."""
        b = self._first + index
        self._reset_into(index, rows, episode)
        self._slot.episode_step[t, b], self._slot.is_last[t, b], self._slot.episode[t, b] = 0, False, episode

    def _reset_into(self, index: int, rows: list[np.ndarray], episode: int) -> None:
        b = self._first + index
        self._touch(b, episode)
        seed = self._settings.seed(b, episode)
        self._seed_of[b], self._began[b] = seed, RESETTING
        self._envs[index].reset(seed, rows, index)
        self._began[b] = self._rows_done
        self._check_observation(rows, index)

    def _reset_step(self, index: int, t: int, rows: list[np.ndarray]) -> None:
        """The step after an episode's last observation: resets now, or copies the row until the pause (wait-reset)."""
        slot, b = self._slot, self._first + index
        slot.valid[t, b], slot.reward[t, b] = False, 0.0
        if self._wait_reset:
            for row, before in zip(rows, self._rows(t), strict=True):
                row[index] = before[index]
            slot.episode_step[t + 1, b], slot.is_last[t + 1, b] = slot.episode_step[t, b], True
        else:
            self._reset(index, rows, int(slot.episode[t, b]) + 1, t + 1)

    def _flag(self, index: int, t: int, terminated: bool, truncated: bool, life_lost: bool) -> None:
        slot, b = self._slot, self._first + index
        slot.terminated[t, b] = terminated
        slot.truncated[t, b] = truncated and not terminated
        slot.life_lost[t, b] = life_lost
        slot.is_last[t + 1, b] = terminated or truncated

    def _check_observation(self, rows: list[np.ndarray], index: int) -> None:
        for field, name in self._float_fields.items():
            if not np.isfinite(rows[field][index]).all():
                raise ValueError(bad_observation(name, rows[field][index]))

    def _mend_numbers(self, t: int, rows: list[np.ndarray]) -> None:
        reward = self._slot.reward[t, self._part]
        while not np.isfinite(reward).all():
            index = int(np.argmin(np.isfinite(reward)))
            self._bad_number(index, t, bad_reward(reward[index]))
        for field, name in self._float_fields.items():
            while not (finite := np.isfinite(rows[field])).all():
                index = int(np.argmin(finite.reshape(len(finite), -1).all(1)))
                self._bad_number(index, t, bad_observation(name, rows[field][index]))

    def _bad_number(self, index: int, t: int, what: str) -> None:
        b = self._first + index
        self._touch(b, int(self._slot.episode[t, b]))
        self._failed(index, t, ValueError(what))

    def _failed(self, index: int, t: int, error: Exception) -> None:
        """Handles a failure in step `t`: ends the run, or cuts off the env's trajectory and restarts the env."""
        b = self._first + index
        episode_step = int(self._slot.episode_step[t, b])
        if self._restarts_on_error and self._patience.is_over(b, int(self._slot.episode[t, b])):
            raise self._error(index, _FOR_EVER, error) from error
        step = f"failed in step {episode_step}"
        self._replace(index, "failed to reset" if self._slot.is_last[t, b] else step, error, t + 1)
        self._interrupt(b, t)

    def _replace(self, index: int, what: str, error: Exception, t: int) -> None:
        """Ends the run, or replaces a failed env by a new one; its next episode begins in row `t`."""
        episode = int(self._progress[1]) + 1
        self._renew(index, what, error)
        try:
            self._reset(index, self._rows(t), episode, t)
        except Exception as again:
            raise self._error(index, _AGAIN, again) from again

    def _renew(self, index: int, what: str, error: Exception) -> None:
        if not self._restarts_on_error:
            raise self._error(index, what, error) from error
        self._notes.append(str(self._error(index, f"{what} and was restarted", error)))
        self._close(index)
        self._slot.restarts[self._first + index] += 1
        try:
            self._envs[index] = self._make(index)
        except Exception as again:
            raise self._error(index, _AGAIN, again) from again

    def _interrupt(self, b: int, t: int) -> None:
        """Makes step `t` of env `b` a reset step; step t-1, if of the same episode, becomes the trajectory's end."""
        slot = self._slot
        slot.valid[t, b], slot.reward[t, b] = False, 0.0
        slot.terminated[t, b] = slot.truncated[t, b] = slot.life_lost[t, b] = False
        if t > 0 and slot.valid[t - 1, b] and not slot.is_last[t, b]:
            slot.interrupted[t - 1, b] = True

    def _replay(self, index: int, actions: np.ndarray, t: int) -> str | None:
        """Replays the episode of row `t`. Returns None if it reaches the same observation, else the difference."""
        b = self._first + index
        seed = self._settings.seed(b, int(self._slot.episode[t, b]))
        self._seed_of[b], self._began[b] = seed, RESETTING
        try:
            return replay(
                self._envs[index],
                seed,
                self._ticking(b, actions),
                self._slot.rows(t, self._part),
                index,
            )
        except Exception as error:
            # If the episode took another course, a stored action may be an error in it.
            self._close(index)
            try:
                self._envs[index] = self._make(index)
            except Exception as again:
                raise self._error(index, "could not be made", again) from again
            return described(error)

    def _ticking(self, b: int, actions: np.ndarray) -> Iterator[Any]:
        """Yields the actions of a replayed episode one by one, and counts each as progress."""
        self._began[b] = self._rows_done
        for action in actions.tolist() if self._discrete else actions:
            self._tick(b)
            yield action

    def _tick(self, b: int) -> None:
        """Counts a step that fills no row."""
        self._progress[3] += 1
        self._began[b] -= 1

    def _shift_history(self, index: int) -> None:
        for array in self._slot.observation.values():
            column = array[: self._slot.history + 1, self._first + index]
            column[:-1] = column[1:].copy()

    def _error(self, index: int, what: str, error: Exception) -> EnvError:
        if isinstance(error, EnvError):
            return error
        details = traceback_of(error) if error.__traceback__ else ""
        what = f"{what}: {described(error)}"
        return named(self._settings, self._first + index, int(self._progress[1]), what, details)


def _signless(reward: Any) -> Any:
    """Returns a reward that has no sign and is a number all the same; ValueError for any other."""
    if isinstance(reward, np.bool_):
        return reward
    raise ValueError(f"the reward is {reward!r}: it must be a number") from None
