"""Whether results agree with a paper: an estimate with its interval, a verdict on it, and the verdict's words.

An interval is Student's of a mean, or Welch's of a difference. The bootstrap intervals of the tables are too narrow to
judge by: of two or three values they reach from the smallest to the largest, and miss the mean in a half or a quarter
of all cases. Where a statistic of several games needs the bootstrap, its interval is made wider by as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veldt.experiments.figures import number
from veldt.report import statistics

# The 0.975 quantile of Student's distribution by its degrees of freedom; between two of them the larger quantile holds.
_QUANTILES = {
    1: 12.706,
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    6: 2.447,
    7: 2.365,
    8: 2.306,
    9: 2.262,
    10: 2.228,
}
_QUANTILES |= {12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042, 60: 2.000, 120: 1.980}
_NORMAL_QUANTILE = 1.96
_SHARE = 0.9  # of a score is kept if results are to count as equal
_MOST_NAMES = 6

NOTHING = "results are missing"
NOTHING_YET = "Nothing is measured yet"


@dataclass(frozen=True)
class Estimate:
    """A value with its 95% interval, NaN where there is none.

    `values` is how many there are, of the smaller group if two are compared, and `of` what they are (in the plural).
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    values: int = 0
    of: str = "seeds"

    def __str__(self) -> str:
        return number(self.value, self.low, self.high)


@dataclass(frozen=True)
class Verdict:
    """Whether a paper's finding is seen; `agrees` is None if that cannot be told, `because` of a reason."""

    agrees: bool | None
    because: str = ""


def mean(values: Sequence[float], of: str = "seeds") -> Estimate:
    """Returns the mean of the finite values, with Student's interval if there are two or more."""
    known_N = _finite(values)
    if not len(known_N):
        return Estimate(math.nan, of=of)
    middle = float(known_N.mean())
    if len(known_N) == 1:
        return Estimate(middle, values=1, of=of)
    reach = _quantile(len(known_N) - 1) * float(known_N.std(ddof=1)) / math.sqrt(len(known_N))
    return Estimate(middle, middle - reach, middle + reach, len(known_N), of)


def ratio(values: Sequence[float], of: str = "seeds") -> Estimate:
    """Returns the geometric mean of ratios above 0, with Student's interval of their logarithms."""
    logs = mean(np.log(_finite(values)).tolist(), of)
    with np.errstate(over="ignore"):  # of very different ratios, the upper end is infinite
        value, low, high = (float(np.exp(one)) for one in (logs.value, logs.low, logs.high))
    return Estimate(value, low, high, logs.values, of)


def difference(
    these: Sequence[float], those: Sequence[float], times: float = 1.0, *, paired: bool = False
) -> Estimate:
    """Returns mean(these) - times * mean(those) of the finite values, with Welch's interval if each has two or more.

    `paired`: values at the same place belong together (they have a seed in common), and the interval is Student's of
    their differences.
    """
    if paired:
        return mean([this - times * that for this, that in zip(these, those, strict=True)])
    these_N, those_N = _finite(these), times * _finite(those)
    fewest = min(len(these_N), len(those_N))
    if not fewest:
        return Estimate(math.nan)
    middle = float(these_N.mean() - those_N.mean())
    if fewest == 1:
        return Estimate(middle, values=1)
    errors = [float(one.var(ddof=1)) / len(one) for one in (these_N, those_N)]
    freedom = sum(error**2 / (len(one) - 1) for error, one in zip(errors, (these_N, those_N), strict=True))
    reach = _quantile(sum(errors) ** 2 / freedom) * math.sqrt(sum(errors)) if freedom else 0.0
    return Estimate(middle, middle - reach, middle + reach, fewest)


def over_games(
    statistic: Callable[..., Any], *scores: Sequence[Sequence[float]] | np.ndarray, repeats: int = 1_000
) -> Estimate:
    """Returns `statistic(*scores)` with an interval if there are two seeds or more.

    It is the bootstrap interval, stratified by game, made wider for few seeds: of n values the bootstrap has
    (n - 1) / n of their variance, and Student's quantile, here with n - 1 degrees of freedom for each game, exceeds
    the normal one.

    Args:
        statistic: of as many arrays as there are `scores`, as `stratified_interval` takes it.
        scores: float [seeds, games] each.
        repeats: how often the bootstrap draws.
    """
    value, seeds = float(statistic(*scores)), min(map(len, scores))
    if seeds < 2:
        return Estimate(value, values=seeds)
    low, high = statistics.stratified_interval(statistic, *scores, repeats=repeats, seed=0)
    freedom = (seeds - 1) * np.shape(scores[0])[1]
    wider = math.sqrt(seeds / (seeds - 1)) * _quantile(freedom) / _NORMAL_QUANTILE
    below, above = (wider * max(0.0, float(reach)) for reach in (value - low, high - value))
    return Estimate(value, value - below, value + above, seeds)


def keeps(scores: Sequence[float], of: Sequence[float], *, paired: bool = False) -> Verdict:
    """Whether scores are at least nine tenths of others in the mean: what is negative may be a tenth more so."""
    return at_least(difference(scores, of, _nine_tenths(of), paired=paired), 0.0)


def falls_short(scores: Sequence[float], of: Sequence[float], *, paired: bool = False) -> Verdict:
    """The opposite of `keeps`."""
    return at_most(difference(scores, of, _nine_tenths(of), paired=paired), 0.0)


def equals(scores: Sequence[float], others: Sequence[float]) -> Verdict:
    """Whether scores are within a tenth of others in the mean."""
    tenth = (1.0 - _SHARE) * abs(mean(others).value)
    return between(difference(scores, others), -tenth, tenth)


def at_least(estimate: Estimate, limit: float) -> Verdict:
    """Whether the whole interval is at or above a limit; False if all of it is below."""
    return between(estimate, limit, math.inf)


def at_most(estimate: Estimate, limit: float) -> Verdict:
    """Whether the whole interval is at or below a limit; False if all of it is above."""
    return between(estimate, -math.inf, limit)


def between(estimate: Estimate, low: float, high: float) -> Verdict:
    """Whether the whole interval lies in [low, high]; False if none of it does."""
    if not math.isfinite(estimate.value):
        return Verdict(None, NOTHING)
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        one = "one seed" if estimate.of == "seeds" else "a single value"
        return Verdict(None, f"{one} has no interval")
    if low <= estimate.low and estimate.high <= high:
        return Verdict(True)
    if estimate.high < low or high < estimate.low:
        return Verdict(False)
    return Verdict(None, f"the 95% interval over {estimate.values} {estimate.of} is too wide")


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """Whether all agree; False if one does not, and else the first reason why that cannot be told."""
    for agrees in (False, None):
        if found := [verdict for verdict in verdicts if verdict.agrees is agrees]:
            return found[0]
    return Verdict(True) if verdicts else Verdict(None, NOTHING)


def comparison(here: str, paper: str, verdicts: Mapping[str, Verdict]) -> str:
    """Returns what is measured here, what the paper finds, and whether the two agree, a sentence each.

    Args:
        here: the first sentence, without its full stop; "" if nothing is measured.
        paper: the second one.
        verdicts: by the case that each is on; the name of a single case is left out.
    """
    return f"{here or NOTHING_YET}. {paper}. {words(verdicts)}."


def words(verdicts: Mapping[str, Verdict]) -> str:
    """Returns the verdicts as a sentence without its full stop."""
    if not verdicts:
        return f"Whether this agrees cannot be seen here because {NOTHING}"
    if len(verdicts) == 1:
        (verdict,) = verdicts.values()
        if verdict.agrees is None:
            return f"Whether this agrees cannot be seen here because {verdict.because}"
        return "This agrees with the paper" if verdict.agrees else "This does not agree with the paper"
    parts = []
    for agrees, does in ((True, "agrees with the paper"), (False, "does not agree with the paper")):
        if names := [name for name, verdict in verdicts.items() if verdict.agrees is agrees]:
            parts.append(f"This {does} for {_listed(names)}")
    unseen: dict[str, list[str]] = {}
    for name, verdict in verdicts.items():
        if verdict.agrees is None:
            unseen.setdefault(verdict.because, []).append(name)
    parts += [
        f"Whether it agrees for {_listed(names)} cannot be seen here because {because}"
        for because, names in unseen.items()
    ]
    return ". ".join(parts)


def _listed(names: Sequence[str]) -> str:
    """Returns names as the end of a sentence, in quotation marks where they have a comma."""
    shown = [f"'{name}'" if "," in name else name for name in names[:_MOST_NAMES]]
    if more := len(names) - len(shown):
        shown.append(f"{more} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def _nine_tenths(of: Sequence[float]) -> float:
    return _SHARE if mean(of).value >= 0.0 else 2.0 - _SHARE


def _finite(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values, np.float64)
    return array[np.isfinite(array)]


def _quantile(freedom: float) -> float:
    """Returns the 0.975 quantile of Student's distribution, or a larger one."""
    return _QUANTILES[max((known for known in _QUANTILES if known <= freedom), default=1)]
