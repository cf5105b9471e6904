"""Scores with human starts: published ones, and those of runs from recorded starts, with who recorded these."""

from __future__ import annotations

from collections.abc import Sequence

from veldt.experiments.catalogue.atari_tables import DQN, GORILA, average_and_median
from veldt.experiments.experiment import Request
from veldt.experiments.figures import Table, number
from veldt.experiments.recorded_starts import RecordedStarts
from veldt.experiments.results import Results, interval
from veldt.report.normalising import human_normalised, is_normalisable
from veldt.report.published import published_score, published_scores

_PLAYERS = {"person": "a person", "agent": "an agent", "": "unknown"}
_ORIGINS = {"person": "human starts", "agent": "an agent's starts", "": "starts of unknown origin"}
_PAPERS_STARTS = 100  # of each game


def origin(starts: RecordedStarts) -> str:
    """Returns what starts may be called, by who recorded them."""
    return _ORIGINS[starts.by]


def from_starts_table(results: Results) -> Table:
    """Returns the scores of runs from recorded starts, raw and normalised, beside published ones of human starts."""
    rows = []
    for (chart, group), several in results.from_starts().items():
        scores, starts = [one.score for one in several], several[0].job.starts
        rows.append(
            (
                *(chart, group, str(len(several)), str(len(starts.content)), _PLAYERS[starts.by]),
                number(*interval(scores)),
                _normalised(scores, chart),
                *(cell for agent in ("DQN", "Gorila") for cell in _published(agent, chart)),
            )
        )
    header = (
        *("game", "configuration", "seeds", "starts", "recorded by", "score", "normalised"),
        *(DQN, f"{DQN}, normalised", GORILA, f"{GORILA}, normalised"),
    )
    caption = (
        "Mean raw returns after the starts, one episode from each, at the end of training; the published ones are of "
        "Nair et al., from 100 human starts. All are normalised with the scores of a random player and of humans from "
        "human starts, whoever has recorded the starts here. Starts that an agent has recorded are not human starts: "
        "they are points of games that it plays, and scores from them are no measure of what the papers report."
    )
    return Table("Evaluation from recorded starts", header, rows, caption)


def starts_table() -> Table:
    """Returns the published scores with null-op and with human starts."""
    rows = []
    for starts, name in (("no-op", "null-op"), ("human", "human")):
        dqn, gorila = published_scores("DQN", starts), published_scores("Gorila", starts)
        ahead = sum(score > dqn[game] for game, score in gorila.items())
        both = (average_and_median(agent, starts) for agent in ("DQN", "Gorila"))
        rows.append((name, *both, f"{ahead} of {len(gorila)}"))
    header = (
        "starts",
        "DQN, average · median",
        "Gorila, average · median",
        "games in which Gorila is better",
    )
    caption = (
        "Published human-normalised scores: Nair et al. 2015, tables 1 to 4, of DQN with null-op starts Mnih et al. "
        "2015. The scores of humans and of a random player are those of the same starts. `--starts` gives those of the "
        "runs here from recorded starts."
    )
    return Table("Published with null-op and human starts", header, rows, caption)


def starts_differ(request: Request, envs: Sequence[str]) -> list[str]:
    """Returns sentences on what the starts of a request are, of an experiment on `envs`."""
    if not request.starts:
        return [
            "Null-op starts only: human starts need games that a human has played. `veldt record-starts` with `--play` "
            "records them, and `--starts` evaluates each run from them, also normalised by the scores of humans from "
            "human starts."
        ]
    sentences = []
    for by, words in (
        ("person", "were recorded by a person here: human starts, of another human than the papers'"),
        ("agent", "were recorded by an agent: they are not human starts"),
        ("", "are of unknown origin: their file does not say who recorded them"),
    ):
        games = [one.env for one in request.starts if one.by == by]
        if games:
            sentences.append(f"The starts of {', '.join(games)} {words}.")
    fewer = [one for one in request.starts if len(one.content) != _PAPERS_STARTS]
    if fewer:
        numbers = ", ".join(f"{len(one.content)} of {one.env}" for one in fewer)
        sentences.append(f"Numbers of starts other than {_PAPERS_STARTS}: {numbers}.")
    with_starts = {one.env for one in request.starts}
    if without := [env for env in envs if env not in with_starts]:
        sentences.append(f"Null-op starts only, without a file of starts: {', '.join(without)}.")
    return sentences


def _normalised(scores: Sequence[float], game: str) -> str:
    if not is_normalisable(game, "human"):
        return "–"
    return number(*interval([human_normalised(score, game, "human") for score in scores]))


def _published(agent: str, game: str) -> tuple[str, str]:
    """Returns an agent's raw and normalised score from human starts; dashes without one."""
    score = published_score(agent, game, "human")
    return ("–", "–") if score is None else (number(score), _normalised([score], game))
