"""The verbs that train: `veldt train` and `veldt resume`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from veldt.cli.arguments import CommandLine, Positional
from veldt.cli.run_code import RunCode
from veldt.errors import UsageError, VeldtError
from veldt.formatting import counted
from veldt.setting_text import flag

if TYPE_CHECKING:
    from veldt.api import Reproduction, Run
    from veldt.recipes.draft import Draft

ATARI = "ALE/Breakout-v5"  # used for all Atari games where no env is given

TRAIN_HELP = """usage: veldt train RECIPE --env ENV [flags]

Train until the steps are done, a score is reached or you press Ctrl-C. The run
is a directory in runs/.

recipes:
{names}

paper recipes, for Atari games alone (veldt recipes describes them):
{of_papers}

--env is required: a Gymnasium id, or module:function for a function of yours
that returns an environment.

  veldt train ppo --env CartPole-v1 --until 475
  veldt train ppo --env ALE/Pong-v5 --steps 4_000_000 --seed 1
  veldt train a2c --env mine:make_env --network mine:network

veldt train RECIPE --env ENV --help lists every flag with its default for ENV;
veldt recipes RECIPE says where each value comes from."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The environment, and where the run is written."""

    env: str
    """A Gymnasium id (CartPole-v1, ALE/Pong-v5), module:function, or module:Id-v0 (an id that the module registers)."""
    env_kwargs: str = "{}"
    """Keyword arguments of the environment, as a JSON object."""
    algorithm: str | None = None
    """Another algorithm in the recipe's system: c51 in apex-dqn, say."""
    run_dir: Path | None = None
    """The directory to make for the run; runs/<recipe>-<env>-<seed> if not given, with another algorithm than the
    recipe's after the recipe."""
    cluster: str | None = None
    """Where the processes of the run are placed: local starts a Ray on this machine, HOST:PORT joins one."""


@dataclass(frozen=True, kw_only=True)
class Resume(RunCode):
    """Continue from a run's newest whole checkpoint. Settings that are not given keep their values."""

    run: Annotated[Path, Positional]
    """The run's directory."""
    cluster: str | None = None
    """As for veldt train; wherever the run was trained before."""


@dataclass(frozen=True, kw_only=True)
class Reproduce(RunCode):
    """Train a finished run again with the plan that it had, and compare the results of both."""

    run: Annotated[Path, Positional]
    """The directory of the finished run."""
    run_dir: Path | None = None
    """The directory to make for the new run; as for veldt train if not given."""


def train(arguments: list[str]) -> str:
    from veldt.recipes import RECIPES, find, plain_recipes
    from veldt.recipes.overrides import why_no_setting

    if not arguments or arguments[0].startswith("-"):
        if arguments and arguments[0] in ("-h", "--help"):
            plain = plain_recipes()
            names = "\n".join(_indented(f"{name:10} {one.summary}", 13) for name, one in plain.items())
            of_papers = _indented(", ".join(name for name in RECIPES if name not in plain), 2)
            return TRAIN_HELP.format(names=names, of_papers=of_papers)
        where = "the recipe comes before the flags: " if arguments else ""
        raise UsageError(f"which recipe? {where}veldt train RECIPE --env ENV; known are {', '.join(RECIPES)}")
    recipe, rest = find(arguments[0]), arguments[1:]
    env = peek(rest, "env")
    draft = recipe.draft(env or ATARI, peek(rest, "algorithm"))
    values = "" if env else ". The values in brackets are for Atari; with --env ENV they are those for ENV"
    line = CommandLine(f"train {recipe.name}", recipe.summary + values, partial(why_no_setting, draft))
    line.add(Launch, "environment")
    add_settings(line, draft)
    given = line.parse(rest)
    env_kwargs = parse_kwargs(given.pop("env_kwargs", "{}"))
    if given.get("cluster") is None and _has_roles(draft, given):
        from veldt.runtime.processes import PRELOAD_ROLES, forkserver

        forkserver(PRELOAD_ROLES)  # loads what roles need while this process loads more and makes an env
    from veldt import api

    return _outcome(api.train(recipe.name, env_kwargs=env_kwargs, **given))


def _indented(text: str, rest: int) -> str:
    """Returns lines of at most 79 characters, the first indented by 2 and the others by `rest`."""
    return textwrap.fill(text, 79, break_on_hyphens=False, initial_indent="  ", subsequent_indent=" " * rest)


def resume(arguments: list[str]) -> str:
    from veldt.api.stored_run import FIXED
    from veldt.config.train_config import RESUMABLE, RunConfig

    allowed = {*RESUMABLE, *(field.name for field in dataclasses.fields(Resume))}
    line = CommandLine("resume", Resume.__doc__ or "", partial(_why_fixed, FIXED, allowed, arguments))
    line.add(Resume)
    line.add(RunConfig, only=RESUMABLE, defaults=False)
    given = line.parse(arguments)
    from veldt import api

    return _outcome(api.resume(given.pop("run"), **given))


def reproduce(arguments: list[str]) -> str:
    why = "cannot change when a run is reproduced, with the plan that it had; start a new run instead"
    allowed = {field.name for field in dataclasses.fields(Reproduce)}
    line = CommandLine("reproduce", Reproduce.__doc__ or "", partial(_why_fixed, why, allowed, arguments))
    line.add(Reproduce)
    given = line.parse(arguments)
    from veldt import api

    result = api.reproduce(given.pop("run"), **given)
    new, run = result.run.path, result.original
    if result.difference is None:
        return f"{new} has the same results as {run}, bit for bit: episodes, actions and weights"
    if not result.is_repeatable and result.cause is None:
        return (
            f"{new} repeats the plan of {run}; the results differ, as those of processes that race or of a GPU do "
            f"({result.difference})"
        )
    raise VeldtError(f"{new} has other results than {run}: {result.difference}; {_why_other(result)}")


def _why_other(result: Reproduction) -> str:
    code = (
        f"code of yours ({', '.join(result.own_code)}) is not as it was, or is not deterministic"
        if result.own_code
        else ""
    )
    if result.cause is not None:
        return f"{result.cause}; or {code}" if code else result.cause
    return f"the plan is the same, so {code or 'the environment does not repeat itself from its seeds'}"


def _has_roles(draft: Draft, given: Mapping[str, Any]) -> bool:
    """Whether the run has processes of its own on this machine; False where the settings are not allowed, which
    `api.train` says."""
    cls = draft.classes["roles"]
    names = {field.name for field in dataclasses.fields(cls)}
    values = {name: value for name, value in {**draft.values, **given}.items() if name in names}
    with contextlib.suppress(Exception):
        return not cls(**values).in_one_process
    return False


def _why_fixed(why: str, allowed: Collection[str], arguments: list[str], name: str) -> str | None:
    """Explains as `recipes.overrides.why_fixed`; the run is the one among the arguments of the verb."""
    from veldt.api.stored_run import draft_of
    from veldt.recipes.overrides import why_fixed

    if name in {field.name for field in dataclasses.fields(Launch)}:
        return f"{flag(name)} {why}"
    drafts = (draft for word in arguments if (draft := draft_of(word)) is not None)
    return why_fixed(name, why, allowed, lambda: next(drafts, None))


def parse_kwargs(text: str) -> dict[str, Any]:
    """Parses an environment's keyword arguments from a JSON object. UsageError if `text` is no such object."""
    try:
        values = json.loads(text, object_pairs_hook=_without_repeated_names)
    except ValueError as error:
        raise UsageError(f"--env-kwargs is not JSON ({error}): write it as '{{\"name\": value}}'") from None
    if not isinstance(values, dict):
        raise UsageError(
            f"--env-kwargs is {text:.100}, which is not a JSON object: write it as '{{\"name\": value}}'"
        )
    return values


def _without_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the JSON object of these pairs. ValueError if a name is there twice, of which json takes the last."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has '{max(names, key=names.count)}' twice")
    return values


def add_settings(line: CommandLine, draft: Draft) -> None:
    """Adds every setting of a recipe, with the draft's values as defaults."""
    from veldt.config.train_config import SECTIONS

    for section in SECTIONS:
        if section in draft.classes:
            line.add(draft.classes[section], section, values=draft.values)


def peek(arguments: list[str], name: str) -> str | None:
    """Returns a flag's value before parsing: environment and algorithm decide which defaults a recipe has."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(f"--{name}", nargs="?")
    value: str | None = getattr(parser.parse_known_args(arguments)[0], name)
    return value


def _outcome(run: Run) -> str:
    """Describes the end of a run in a sentence."""
    summary = run.summary
    mean = summary["ep_return_mean"]
    number = "fewer than 100" if summary["episodes"] < 100 else "the last 100"
    score = _no_score(run) if mean is None else f"mean return of {number} episodes {mean:,.1f}"
    steps = (
        "finished its steps" if run.until is None else f"finished its steps without reaching {run.until:g}"
    )
    because = {
        "until": "reached its score",
        "steps": steps,
        "callback": "was stopped by a callback",
        "interrupted": "was interrupted",
    }[run.reason]
    unfinished = run.reason in ("callback", "interrupted")
    how = f"; its checkpoint is saved, continue with `veldt resume {run.path}`" if unfinished else ""
    return f"{run.path} {because}: {summary['steps']:,} steps in {summary['seconds']:.1f} s, {score}{how}"


def _no_score(run: Run) -> str:
    """Says why a run has no mean return: of some systems, only the episodes that explore little count, or those of the
    evaluator."""
    from veldt.runs.episodes import read_episodes

    others = len(read_episodes(run.path))
    if not others:
        return "no episode finished"
    return f"no episode that counts for the mean return finished ({counted(others, 'other', 'others')} did)"
