"""Sentences about numbers of a run's first steps from which networks learn slowly, with what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from veldt.algorithms.base import Algorithm, OffPolicy
from veldt.config.run_code import own_names
from veldt.config.train_config import TrainConfig
from veldt.envs.spec import ArraySpec
from veldt.envs.trajectory import Rows
from veldt.networks.build import scale_of
from veldt.networks.normaliser import is_normalised

# Gymnasium's own environments of vectors are within these, but for a few of MuJoCo.
_LARGE, _SMALL_REWARD = 100.0, 0.01
_DARK = 32  # real pictures are brighter; the ids of objects, and flags, are not above


class ScaleWarning:
    """Warns once, after a run's first rollout, of the scales of its numbers.

    Args:
        is_due: whether this process plays the first of the run's envs, and for the first time.
        note: shows a sentence, and records it as an event of this kind.
    """

    def __init__(
        self,
        config: TrainConfig,
        algorithm: Algorithm,
        is_due: bool,
        note: Callable[[str, str], None],
    ) -> None:
        self._config, self._algorithm, self._is_due, self._note = config, algorithm, is_due, note

    def look_at(self, rollout: Rows) -> None:
        """Called with each rollout; it says something of the first one at most."""
        if self._is_due:
            self._is_due = False
            for text in scale_notes(rollout, self._config, self._algorithm):
                self._note(f"warning: {text}", "warning")


def scale_notes(slot: Rows, config: TrainConfig, algorithm: Algorithm) -> Iterator[str]:
    """Yields a sentence for each field of the slot's observations, and for its rewards, where there is reason to."""
    # A network of the user's own may scale its inputs itself.
    if not own_names(config):
        for name, field in slot.spec.observation.items():
            yield from _about_field(name, field, slot.observation[name], config)
    yield from _about_rewards(slot.reward[slot.valid], config, algorithm)


def _about_field(name: str, field: ArraySpec, rows: np.ndarray, config: TrainConfig) -> Iterator[str]:
    what = f"the observations '{name}'" if name else "the observations"
    if field.dtype == "uint8":
        if field.stack == 1:
            yield from _about_bytes(what, field, int(rows.max(initial=0)))
    elif is_normalised(field) and not config.network.normalise_observations:
        largest = float(np.abs(rows).max(initial=0.0))
        if largest > _LARGE:
            yield (
                f"{what} have numbers as large as {largest:,.5g}, from which networks learn slowly: "
                f"{_mend(config, 'normalise_observations', 'TransformObservation')}"
            )


def _about_bytes(what: str, field: ArraySpec, largest: int) -> Iterator[str]:
    bound = round(1 / scale_of(field))
    space = f"Box(0, {{}}, {field.shape}, np.uint8)"
    if largest > bound:
        yield (
            f"{what} have numbers as large as {largest}, and the networks divide them by {bound}, the highest bound of "
            f"their space: declare the true one, as in {space.format(255)}"
        )
    elif 0 < largest <= _DARK and bound == 255:
        yield (
            f"{what} have no number above {largest} so far, and the networks divide them by {bound}, the highest bound "
            f"of their space, which leaves little to learn from: declare the true one, as in {space.format(largest)}"
        )


def _about_rewards(reward: np.ndarray, config: TrainConfig, algorithm: Algorithm) -> Iterator[str]:
    learn = config.learn
    if getattr(learn, "normalise_rewards", False) or getattr(learn, "clip_rewards", False):
        return
    if isinstance(algorithm, OffPolicy) and algorithm.reward_range is not None:
        return  # its atoms have a range, of which the learner speaks
    largest = float(np.abs(reward).max(initial=0.0))
    if largest > _LARGE or 0 < largest < _SMALL_REWARD:
        size = "as large as" if largest > _LARGE else "no larger than"
        yield (
            f"rewards are {size} {largest:,.5g} so far, and with those near 1 networks usually learn faster: "
            f"{_mend(config, 'normalise_rewards', 'TransformReward')}"
        )


def _mend(config: TrainConfig, setting: str, wrapper: str) -> str:
    holder = config.network if setting == "normalise_observations" else config.learn
    if hasattr(holder, setting) and not config.roles.statistics_refusals[setting]:
        return f"take --{setting.replace('_', '-')}"
    return f"scale them in the environment (gymnasium.wrappers.{wrapper})"
