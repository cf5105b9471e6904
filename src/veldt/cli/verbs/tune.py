"""The verb that searches for the settings with the best score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from veldt.cli.arguments import CommandLine
from veldt.cli.verbs.training import ATARI, add_settings, parse_kwargs, peek
from veldt.errors import UsageError

TUNE_HELP = """usage: veldt tune RECIPE --env ENV --trials N [flags]

Search for the settings with the best score: each trial is a run with values of its own, and the next ones are drawn
from what the earlier ones have shown (Optuna). What is done is kept, and the same command continues.

  veldt tune ppo --env CartPole-v1 --trials 50 --steps 50_000
  veldt tune ppo --env CartPole-v1 --trials 50 --search learning_rate gamma=0.98,0.99 num_envs=8,16,32
  veldt tune dqn --env CartPole-v1 --trials 50 --search learning_rate=log:1e-4:1e-2 n_step=uniform:1:5

All flags of veldt train RECIPE are flags here too, and hold for all trials. veldt tune RECIPE --env ENV --help lists
them."""


@dataclass(frozen=True, kw_only=True)
class Searched:
    """How many trials, over which values, and where."""

    trials: int
    """Trials of the whole search, with those that were run before."""
    search: tuple[str, ...] = ()
    """What is searched: NAME for the usual values of a setting, NAME=log:LOW:HIGH or NAME=uniform:LOW:HIGH for a range,
    NAME=uniform:LOW:HIGH:STEP for LOW, LOW + STEP and so on, NAME=A,B,C for single values (hidden=64x64,256x256;
    shared=yes,no). If not given, the settings that are usually searched, except those that are given as flags."""
    jobs: int = 0
    """Trials side by side, on equal shares of the cores; 0: one on each core as far as the memory is enough, and one
    where a run has several processes or takes a GPU."""
    prune: bool = True
    """End a trial early whose score is below the median of the others at the same steps."""
    out: Path | None = None
    """The directory of the search; experiments/tune-RECIPE-ENV if not given."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The environment of all trials."""

    env: str
    """A Gymnasium id (CartPole-v1, ALE/Pong-v5) or module:function."""
    env_kwargs: str = "{}"
    """Keyword arguments of the environment, as a JSON object."""
    algorithm: str | None = None
    """Another algorithm in the recipe's system: c51 in apex-dqn, say."""


def tune(arguments: list[str]) -> str:
    if not arguments or arguments[0].startswith("-"):
        if arguments and arguments[0] in ("-h", "--help"):
            return TUNE_HELP
        raise UsageError("which recipe? veldt tune RECIPE --env ENV --trials N; `veldt recipes` lists them")
    from veldt.recipes import find
    from veldt.recipes.overrides import why_no_setting

    recipe, rest = find(arguments[0]), arguments[1:]
    draft = recipe.draft(peek(rest, "env") or ATARI, peek(rest, "algorithm"))
    why_none = partial(_why_no_flag, partial(why_no_setting, draft))
    line = CommandLine(f"tune {recipe.name}", TUNE_HELP.partition("\n\n")[2].partition("\n\n")[0], why_none)
    line.add(Searched, "search")
    line.add(Trained, "environment")
    add_settings(line, draft)
    given: dict[str, Any] = line.parse(rest)
    from veldt.cli.verbs.search_space import read_space
    from veldt.tracking.console import output_console
    from veldt.tuning import run as search
    from veldt.tuning.request import TuneRequest

    about = {name: given.pop(name) for name in ("trials", "search", "jobs", "prune", "out") if name in given}
    where = {name: given.pop(name) for name in ("env", "env_kwargs", "algorithm") if name in given}
    env_kwargs = parse_kwargs(where.pop("env_kwargs", "{}"))
    space = read_space(draft, given, about.get("search", ()))
    page = search.tune(
        TuneRequest(recipe=recipe.name, **where, env_kwargs=env_kwargs, settings=given, space=space),
        about.get("out"),
        output_console(),
        trials=about["trials"],
        jobs=about.get("jobs", 0),
        prunes=about.get("prune", True),
    )
    return str(page)


def _why_no_flag(why_no_setting: Any, name: str) -> str | None:
    if name == "run_dir":
        return (
            "--run-dir is for one run, and each trial has its own in the search's directory: --out names that"
        )
    if name == "cluster":
        return "--cluster is not for a search: its trials run side by side on this machine"
    why: str | None = why_no_setting(name)
    return why
