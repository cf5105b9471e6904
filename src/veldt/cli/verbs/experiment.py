"""The verb that draws a figure or table of the papers from runs on this machine."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from veldt.cli.arguments import Positional, parse
from veldt.errors import UsageError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class ExperimentArguments:
    """A figure or table of the papers, from runs on this machine: what is done is kept, and the same command continues.
    With --list, all experiments."""

    name: Annotated[str | None, Positional] = None
    """The experiment; --list shows all."""
    list: bool = False
    """List the experiments: where each is from, what it shows, and hours at a small scale on two cores."""
    scale: Literal["small", "paper"] = "small"
    """small: quick environments and short runs; paper: the paper's environments and steps."""
    seeds: int | None = None
    """Seeds of each run; more than before adds runs. If not given, as before in this directory, or the experiment's own
    number."""
    games: tuple[str, ...] = ()
    """Environments in place of the experiment's: names of Atari games (Pong), or ids."""
    recipes: tuple[str, ...] = ()
    """Recipes in place of the experiment's; only of scores and minatar, which compare recipes."""
    starts: Path | None = None
    """A directory with a file of recorded starts for each game, GAME.safetensors (Pong.safetensors for ALE/Pong-v5), as
    veldt record-starts --out writes them: each run of these games is also evaluated from them, when it is trained. Only
    of scores; an experiment that is there may be given them later."""
    budget: float | None = None
    """Hours after which no further run is started; the page shows what there is."""
    plan: bool = False
    """Only show the runs and how long they take."""
    out: Path | None = None
    """The directory; experiments/NAME-SCALE if not given."""


def experiment(arguments: list[str]) -> str:
    asked = parse(ExperimentArguments, arguments, "experiment")
    from veldt.experiments.catalogue import EXPERIMENTS

    if asked.list:
        return _listed()
    if asked.name is None:
        raise UsageError("no experiment is named: `veldt experiment --list` shows all")
    if asked.name not in EXPERIMENTS:
        raise UsageError(
            f"no experiment '{asked.name}'{did_you_mean(asked.name, EXPERIMENTS)}: known are {', '.join(EXPERIMENTS)}"
        )
    if asked.seeds is not None and asked.seeds < 1:
        raise UsageError(f"--seeds is {asked.seeds}: it must be at least 1")
    if asked.budget is not None and not 0 < asked.budget < math.inf:
        raise UsageError(f"--budget is {asked.budget:g}: it must be a number of hours, more than 0")
    from veldt.experiments.experiment import Request
    from veldt.experiments.planning.games import resolved
    from veldt.experiments.recorded_starts import with_starts
    from veldt.experiments.run import run_experiment
    from veldt.experiments.workspace import seeds_of
    from veldt.recipes import find
    from veldt.tracking.console import output_console

    chosen = EXPERIMENTS[asked.name]
    if not chosen.repeats and asked.seeds is not None:
        raise UsageError(
            f"--seeds has no effect: {chosen.name} measures speed, once for each arrangement; leave it out"
        )
    if asked.recipes and not chosen.compares_recipes:
        others = " and ".join(one.name for one in EXPERIMENTS.values() if one.compares_recipes)
        raise UsageError(
            f"--recipes has no effect: {chosen.name} trains its own recipes; leave it out ({others} take others)"
        )
    if asked.starts is not None and not chosen.takes_starts:
        others = " and ".join(one.name for one in EXPERIMENTS.values() if one.takes_starts)
        raise UsageError(
            f"--starts has no effect: {chosen.name} evaluates no run from recorded starts; leave it out ({others} does)"
        )
    recipes = tuple(dict.fromkeys(find(name).name for name in asked.recipes))
    root = asked.out or Path("experiments") / f"{chosen.name}-{asked.scale}"
    small, papers = chosen.seeds
    seeds = asked.seeds or seeds_of(root) or (small if asked.scale == "small" else papers)
    request = Request(asked.scale, seeds, resolved(asked.games, chosen.env_of), recipes)
    if asked.starts is not None:
        request = with_starts(chosen, request, asked.starts)
    page = run_experiment(
        chosen,
        request,
        root,
        output_console(),
        budget_hours=math.inf if asked.budget is None else asked.budget,
        plan_only=asked.plan,
    )
    return str(page) if page else ""


def _listed() -> str:
    from rich.table import Table

    from veldt.experiments.catalogue import EXPERIMENTS
    from veldt.formatting import MISSING
    from veldt.tracking.console import output_console

    console = output_console(file=io.StringIO())
    table = Table("experiment", "source", "what it shows", "hours, small, two cores", box=None)
    for one in EXPERIMENTS.values():
        hours = f"{one.hours:.2g}" if math.isfinite(one.hours) else MISSING
        table.add_row(one.name, one.source, one.shows, hours)
    console.print(table)
    console.print("Hours on this machine: veldt experiment NAME --plan measures them.", highlight=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip("\n")
