"""When restarting a failing environment is no longer worth it."""

from __future__ import annotations

_MOST = 10


class Patience:
    """Ends a run whose environment fails in the first step of every episode: it would be restarted for ever."""

    def __init__(self) -> None:
        self._failed: dict[
            int, tuple[int, int]
        ] = {}  # by simulator: the last episode that failed so, and how many

    def is_over(self, b: int, episode: int, age: int) -> bool:
        """Takes a failure of simulator `b`, `age` steps into an episode. True at the tenth in a row without a step."""
        last, count = self._failed.get(b, (-1, 0))
        count = count + 1 if age == 0 and episode - last <= 1 else 1
        self._failed[b] = episode, count
        return count >= _MOST
