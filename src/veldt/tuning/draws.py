"""Which values the next trial of a search gets: none that were tried, and none that the settings refuse together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from veldt.errors import UsageError, VeldtError, says_diverged
from veldt.setting_text import in_search
from veldt.tuning.request import TuneRequest
from veldt.tuning.space import combinations, values_of
from veldt.tuning.study import Study, Trial, TrialState

_MOST_DRAWS = 100  # in a row without a new trial
_MOST_LISTED = 10_000  # combinations of a space that are gone through one by one


class Draws:
    """Draws new trials into the study."""

    def __init__(self, request: TuneRequest, study: Study) -> None:
        self._request, self._study, self._space = request, study, request.space
        self._combinations = combinations(request.space)
        self._tried = {self._key(trial.values) for trial in study.trials() if _is_repeatable(trial)}

    def next(self) -> Trial | None:
        """Returns a new trial; None if all combinations of a finite space were tried.

        Raises:
            VeldtError: hardly any combination of values is allowed.
        """
        if self._combinations is not None and len(self._tried) >= self._combinations:
            return None
        why = ""
        for _ in range(_MOST_DRAWS):
            drawn = self._study.draw()
            if self._is_tried(drawn):
                continue
            if not (refusal := self._refusal(drawn)):
                return self._add(drawn)
            why = refusal
        if self._combinations is not None and self._combinations <= _MOST_LISTED:
            rest = next(self._rest(), None)
            if rest is None and not self._tried:
                raise UsageError(
                    f"--search has no combination of values that is allowed, because of this: {why}"
                )
            return None if rest is None else self._add(rest)
        raise VeldtError(
            f"{_MOST_DRAWS} combinations of values in a row were tried before or are refused{why and ': '}{why}; give "
            "--search other values"
        )

    def _add(self, drawn: Mapping[str, Any]) -> Trial:
        self._tried.add(self._key(values_of(self._space, drawn)))
        return self._study.add(drawn)

    def _rest(self) -> Iterator[Mapping[str, Any]]:
        """Yields what is left of a finite space, and allowed."""
        for combination in itertools.product(*(dimension.drawable for dimension in self._space.values())):
            drawn = dict(zip(self._space, combination, strict=True))
            if not self._is_tried(drawn) and not self._refusal(drawn):
                yield drawn

    def _is_tried(self, drawn: Mapping[str, Any]) -> bool:
        return self._key(values_of(self._space, drawn)) in self._tried

    def _refusal(self, drawn: Mapping[str, Any]) -> str:
        return self._request.refusal(values_of(self._space, drawn))

    def _key(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(in_search(values[name]) for name in self._space)


def _is_repeatable(trial: Trial) -> bool:
    """Returns whether another trial with the same values would end in the same way: not where something was amiss that
    may have been mended."""
    return trial.state is not TrialState.FAILED or says_diverged(trial.why)
