"""Error messages about failed envs, and the limit after which a failing env is no longer restarted."""

from __future__ import annotations

from typing import Any

import numpy as np

from veldt.envs.from_gymnasium.observation_batches import field_named
from veldt.envs.stepper_settings import StepperSettings
from veldt.errors import EnvError

# What helps against an env that fails, as a sentence goes on.
TO_GO_ON = "--on-env-error restart begins another episode in its place instead"
_MAX_FAILURES = 10
IN_A_ROW = "failed in ten episodes in a row"


def named(settings: StepperSettings, b: int, episode: int, what: str, details: str = "") -> EnvError:
    """Returns the error with the names of the environment and env, and the seed."""
    seed = settings.seed(b, episode)
    message = f"environment {settings.source.name}, env {settings.first + b} (seed {seed}) {what}"
    return EnvError(message, env=b, seed=seed, details=details)


def failed_in_a_row(error: EnvError) -> EnvError:
    """Returns the error of an env whose process has failed in as many episodes in a row as `Patience` allows."""
    return EnvError(
        f"{error}, and {IN_A_ROW}",
        env=error.env,
        seed=error.seed,
        details=error.details,
    )


def hung(settings: StepperSettings, b: int, episode: int, details: str = "", where: str = "") -> EnvError:
    """Returns the error of an env that makes no progress in this episode; `where` is "", or as " in step 3"."""
    seconds = f"{settings.envs.env_timeout:g} s (--env-timeout)"
    return named(settings, b, episode, f"did not answer{where} within {seconds} and counts as hung", details)


def bad_reward(reward: Any) -> str:
    """Says that a reward is not finite."""
    with np.errstate(over="ignore"):
        number = np.asarray(reward, np.float32)
    return f"the reward is {_not_finite(number)}"


def bad_observation(name: str, observation: np.ndarray) -> str:
    """Says that the observation, or the field `name` of it, has numbers that are not finite."""
    return f"the observation{field_named(name)} contains {_not_finite(observation)}"


def _not_finite(numbers: np.ndarray) -> str:
    return "NaN" if np.isnan(numbers).any() else "an infinite number, or one that float32 does not have"


class Patience:
    """Stops the restarts of an env that fails in every episode."""

    def __init__(self) -> None:
        self._failed: dict[int, tuple[int, int]] = {}  # env -> (last episode that failed, failures in a row)

    def is_over(self, b: int, episode: int) -> bool:
        """Records a failure of env `b` in an episode. True in the tenth episode in a row that fails."""
        last, count = self._failed.get(b, (-1, 0))
        count = count + 1 if episode - last <= 1 else 1
        self._failed[b] = episode, count
        return count >= _MAX_FAILURES
