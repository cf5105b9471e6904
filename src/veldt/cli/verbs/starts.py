"""The verb that records starts in the middle of episodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from veldt.cli.arguments import Positional, parse
from veldt.cli.run_code import RunCode
from veldt.errors import UsageError
from veldt.evaluation.foreign_names import OF_RECORD_STARTS, answer


@dataclass(frozen=True, kw_only=True)
class RecordStarts(RunCode):
    """Record starts in the middle of episodes, for veldt evaluate --starts."""

    run: Annotated[Path | None, Positional] = None
    """The directory of the run whose policy plays, or in whose environment you play."""
    play: bool = False
    """You play, in a window: arrows and space, or the number of an action; Escape ends."""
    env: str | None = None
    """The environment instead of the run's, with the run's other settings (as for veldt evaluate); without RUN, which
    needs --play, with default settings."""
    starts: int = 100
    """Number of starts: one at a random step in each of so many episodes of the policy, or at random steps of yours."""
    out: Path | None = None
    """The new file; if not given, starts.safetensors in the run, or without RUN in the current directory."""
    seed: int = 0
    """Fixes the episodes and the points in them."""
    greedy: bool = False
    """Take the best action instead of exploring as the algorithm does in evaluation."""
    best: bool = False
    """Use the checkpoint with the best mean return of 100 episodes instead of the newest."""


def record_starts(arguments: list[str]) -> str:
    asked = parse(RecordStarts, arguments, "record-starts", partial(answer, OF_RECORD_STARTS))
    _check(asked)
    import numpy as np

    if asked.play:
        from veldt.cli.verbs import play

        recorded = play.record(asked.run, asked.env, asked.starts, asked.out, asked.seed, asked.trust)
    else:
        from veldt import api
        from veldt.evaluation.starts import check_numbers
        from veldt.runs.files import from_here

        check_numbers(asked.starts, asked.seed)
        place = asked.out and asked.out.absolute()
        agent = api.load(asked.run, best=asked.best, **asked.for_load)
        out = from_here(asked.out, place) if asked.out and place else None
        recorded = api.record_starts(
            agent, starts=asked.starts, out=out, seed=asked.seed, greedy=asked.greedy
        )
    return (
        f"{recorded.path}: {len(recorded)} starts of {recorded.env}, {np.mean(recorded.lengths):,.0f} steps into their "
        f"episodes on average (at most {max(recorded.lengths):,})"
    )


def _check(asked: RecordStarts) -> None:
    """UsageError where flags do not go together."""
    if asked.env is not None and asked.run is None and not asked.play:
        raise UsageError(
            f"--env is {asked.env}, and no run is named whose policy plays: name one, or add --play"
        )
    if asked.run is None and asked.env is None:
        raise UsageError(
            "neither a run nor an env is given: name RUN for its policy, or add --play with RUN or --env for yourself"
        )
    for name in ("greedy", "best", "network", "core", "actor", "critic", "model"):
        if asked.play and getattr(asked, name):
            raise UsageError(f"--{name} sets how a policy plays, and with --play you play: leave it out")
    if asked.trust and asked.run is None:
        raise UsageError("--trust is about a run, and none is given: leave it out")
