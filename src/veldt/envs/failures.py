"""What is said of an env that fails, and when restarting it is no longer worth it."""

from __future__ import annotations

from veldt.envs.env import StepperSettings
from veldt.errors import EnvError

_MOST = 10


def named(settings: StepperSettings, b: int, episode: int, what: str, details: str = "") -> EnvError:
    """The error that says of which environment, env and seed this is true."""
    seed = settings.seed(b, episode)
    message = f"environment {settings.source.name}, env {settings.first + b} (seed {seed}) {what}"
    return EnvError(message, env=b, seed=seed, details=details)


def hung(settings: StepperSettings, b: int, episode: int, details: str = "") -> EnvError:
    """The error of an env that makes no progress in this episode."""
    seconds = f"{settings.simulation.env_timeout:g} s (--env-timeout)"
    return named(settings, b, episode, f"did not answer within {seconds} and counts as hung", details)


class Patience:
    """Ends a run whose environment fails in the first step of every episode: it would be restarted for ever."""

    def __init__(self) -> None:
        self._failed: dict[int, tuple[int, int]] = {}  # by env: the last episode that failed so, and how many

    def is_over(self, b: int, episode: int, age: int) -> bool:
        """Takes a failure of env `b`, `age` steps into an episode. True at the tenth in a row without a step."""
        last, count = self._failed.get(b, (-1, 0))
        count = count + 1 if age == 0 and episode - last <= 1 else 1
        self._failed[b] = episode, count
        return count >= _MOST
