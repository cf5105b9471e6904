"""The command line: `veldt VERB ...`. Flags, help and checks all come from the configuration's dataclasses."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import sys
import time
import traceback
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from veldt.errors import SimulatorError, UsageError, VeldtError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The run itself."""

    env: str
    """A Gymnasium id (CartPole-v1, ALE/Pong-v5) or module:function."""
    env_kwargs: str = "{}"
    """Keyword arguments of the environment, as a JSON object."""
    run_dir: Path | None = None
    """The directory to make for the run; runs/<recipe>-<env>-<seed> if not given."""


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Go on from a run's newest whole checkpoint."""

    run: Annotated[Path, tyro.conf.Positional]
    steps: int | None = None
    """A new total of steps."""
    until: float | None = None
    """A new score to stop at."""


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Play whole games with a run's policy."""

    run: Annotated[Path, tyro.conf.Positional]
    episodes: int = 30
    """Games to play."""
    seed: int = 0
    """Fixes the games."""
    greedy: bool = False
    """The likeliest action instead of a draw from the policy."""
    best: bool = False
    """The checkpoint with the best mean return instead of the newest."""
    json: bool = False
    """Print one JSON object."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Make a video of a game: a new one, or a game of the training replayed from its seed and actions."""

    run: Annotated[Path, tyro.conf.Positional]
    game: int | None = None
    """Index of a finished training game to replay (0 is the first, -1 the last); a new game if not given."""
    seed: int = 0
    """Fixes the new game."""
    greedy: bool = False
    """The likeliest action instead of a draw from the policy."""
    best: bool = False
    """The checkpoint with the best mean return instead of the newest."""
    out: Path | None = None
    """The file to write; in the run's videos/ if not given."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """One self-contained HTML file about one or several runs."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    out: Path | None = None
    """The file to write; report.html in the first run if not given."""


@dataclass(frozen=True, kw_only=True)
class Recipes:
    """List the recipes, or one with every value, its unit and its source."""

    name: Annotated[str | None, tyro.conf.Positional] = None
    env: str = "ALE/Breakout-v5"
    """The kind of environment whose values are shown: any Atari game, or anything else for small environments."""


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Cores, GPUs, memory, what is installed, and the plan that training would use here."""

    env: str = "CartPole-v1"
    """The environment to plan for."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Speed beside the machine's own limit, measured in the same run."""

    what: Annotated[Literal["sampling", "training"], tyro.conf.Positional]
    recipe: str = "a2c"
    """Whose settings are used."""
    env: str = "ALE/Breakout-v5"
    """The environment."""
    num_simulators: int = 0
    """Simulators; 0 means the recipe's number."""
    processes: int = 0
    """Simulator processes; 0 chooses."""
    seconds: float = 5.0
    """How long each measurement takes."""
    json: bool = False
    """Print one JSON object."""


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point. Exit codes: 0 done, 1 failure, 2 usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        _dispatch(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader of our output has gone: that is its right
    except KeyboardInterrupt:
        sys.exit(130)
    except VeldtError as error:
        if debug:
            traceback.print_exc()
        print(f"veldt: {error}", file=sys.stderr)
        if isinstance(error, SimulatorError) and error.details:
            print(f"\n{error.details.rstrip()}", file=sys.stderr)
        sys.exit(error.exit_code)
    except Exception as error:
        if debug:
            raise
        print(
            f"veldt: {type(error).__name__}: {error} (unexpected; --debug shows where)",
            file=sys.stderr,
        )
        sys.exit(1)


_HELP = """veldt: any deep-RL algorithm, on any arrangement of simulators, inference, replay and learners

  veldt train RECIPE --env ENV      train (veldt train ppo --help lists every flag)
  veldt resume RUN                  go on from the newest checkpoint
  veldt evaluate RUN                play whole games
  veldt watch RUN                   make a video of a game
  veldt report RUN [RUN ...]        one HTML file: curves, where the time went, settings
  veldt recipes [NAME]              list recipes, or one with every value and its source
  veldt doctor                      what is here, and the plan training would use
  veldt bench sampling|training     speed beside the machine's limit

Add --debug to any of them for a traceback. Exit codes: 0 done, 1 failure, 2 usage."""


def _dispatch(arguments: list[str]) -> None:
    verbs: dict[str, Callable[[list[str]], None]] = {
        "train": _train,
        "resume": _resume,
        "evaluate": _evaluate,
        "watch": _watch,
        "report": _report,
        "recipes": _recipes,
        "doctor": _doctor,
        "bench": _bench,
    }
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_HELP)
        return
    verb = arguments[0]
    if verb == "--version":
        from veldt import __version__

        print(f"veldt {__version__}")
        return
    if verb not in verbs:
        raise UsageError(f"no verb '{verb}'{did_you_mean(verb, verbs)}: known are {', '.join(verbs)}")
    verbs[verb](arguments[1:])


def _parse(cls: Any, arguments: list[str], verb: str) -> Any:
    """`cls` from flags. Usage errors are one sentence, like all others."""
    if not {"-h", "--help"} & set(arguments):
        _check(arguments, _settings(cls), f"see `veldt {verb} --help`")
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(
                cls,
                args=arguments,
                prog=f"veldt {verb}",
                config=(tyro.conf.AvoidSubcommands, tyro.conf.OmitArgPrefixes),
            )
    except SystemExit as stopped:
        if stopped.code in (0, None):
            raise
        text = " ".join(re.sub("[─-╿]", " ", box.getvalue()).split())
        raise UsageError(
            f"{text or 'the arguments cannot be understood'}; see `veldt {verb} --help`"
        ) from None


@dataclass(frozen=True)
class _Setting:
    """One value that a command line can give, by `--flag` or, where `positional`, by its place."""

    name: str
    kind: Any
    required: bool
    positional: bool

    @property
    def repeats(self) -> bool:
        return typing.get_origin(self.kind) is tuple

    def wrong(self, text: str) -> str | None:
        """What a value must be, if `text` is not that."""
        kinds = typing.get_args(self.kind) if isinstance(self.kind, types.UnionType) else (self.kind,)
        if type(None) in kinds and text == "None":
            return None
        kind = typing.get_args(kinds[0])[0] if self.repeats else kinds[0]
        if typing.get_origin(kind) is Literal:
            choices = typing.get_args(kind)
            if text in choices:
                return None
            return f"it must be one of {', '.join(choices)}{did_you_mean(text, choices)}"
        try:
            kind(text)
        except ValueError:
            return f"it must be {'a whole number' if kind is int else 'a number'}"
        return None


def _settings(cls: Any) -> list[_Setting]:
    """All that can be given for the dataclass `cls`, those of dataclasses inside it included."""
    settings = []
    hints = typing.get_type_hints(cls, include_extras=True)
    for item in dataclasses.fields(cls):
        hint = hints[item.name]
        kind, *extras = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
        if dataclasses.is_dataclass(kind):
            settings += _settings(kind)
            continue
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        settings.append(_Setting(item.name.replace("_", "-"), kind, required, tyro.conf.Positional in extras))
    return settings


def _check(arguments: list[str], settings: list[_Setting], see: str) -> None:
    """UsageError for what is unknown, missing or no value of its setting."""
    places = [setting for setting in settings if setting.positional]
    flags = {f"--{setting.name}": setting for setting in settings if not setting.positional}
    off = {f"--no-{setting.name}" for setting in settings if setting.kind is bool}
    given, rest = set(), list(arguments)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("--"):
            if not places:
                raise UsageError(f"'{argument}' is one argument too many: {see}")
            setting = places[0] if places[0].repeats else places.pop(0)
            given.add(setting.name)
            if must := setting.wrong(argument):
                raise UsageError(f"'{argument}' cannot be {setting.name.upper()}: {must} ({see})")
            continue
        flag, equals, value = argument.partition("=")
        flag = flag.replace("_", "-")
        if flag not in flags and flag not in off:
            raise UsageError(f"no flag {flag}{did_you_mean(flag, [*flags, *off])}: {see}")
        if flag in off or flags[flag].kind is bool:
            if equals:
                raise UsageError(f"{flag} takes no value: write {flag} or {_opposite(flag, off)} ({see})")
            continue
        setting = flags[flag]
        given.add(setting.name)
        values = [value] if equals else []
        while not equals and rest and not rest[0].startswith("--") and (setting.repeats or not values):
            values.append(rest.pop(0))
        if not values:
            raise UsageError(f"{flag} has no value: {see}")
        for value in values:
            if must := setting.wrong(value):
                raise UsageError(f"{flag} is '{value}': {must} ({see})")
    for setting in settings:
        if setting.required and setting.name not in given:
            what = setting.name.upper() if setting.positional else f"--{setting.name}"
            raise UsageError(f"{what} is missing: {see}")


def _opposite(flag: str, off: set[str]) -> str:
    return f"--{flag.removeprefix('--no-')}" if flag in off else f"--no-{flag.removeprefix('--')}"


def _train(arguments: list[str]) -> None:
    from veldt import api
    from veldt.recipe_book import RECIPES, find
    from veldt.simulators.source import resolve

    if not arguments or arguments[0].startswith("-"):
        if arguments and arguments[0] in ("-h", "--help"):
            print("usage: veldt train RECIPE --env ENV [flags]; recipes: " + ", ".join(RECIPES))
            print("veldt train RECIPE --help lists every flag with its default")
            return
        raise UsageError(f"which recipe? veldt train RECIPE --env ENV; known are {', '.join(RECIPES)}")
    recipe, rest = find(arguments[0]), arguments[1:]
    env = _peek(rest, "--env")
    base = recipe.config(env or "ALE/Breakout-v5")
    sections = {
        name: (type(getattr(base, name)), field(default=getattr(base, name)))
        for name in ("run", "learn", "network", "simulation", "atari")
    }
    shape = dataclasses.make_dataclass(
        "Train",
        [("launch", Launch), *((name, kind, default) for name, (kind, default) in sections.items())],
        frozen=True,
        kw_only=True,
    )
    shape.__doc__ = recipe.summary
    parsed = _parse(shape, rest, f"train {recipe.name}")
    launch = parsed.launch
    source = resolve(launch.env, api.parse_kwargs(launch.env_kwargs))
    config = dataclasses.replace(
        recipe.config(source.name),
        env_kwargs=dict(source.kwargs),
        **{name: getattr(parsed, name) for name in sections},
    )
    run = api.train_config(config, source, run_dir=launch.run_dir)
    _say_outcome(run)


def _peek(arguments: list[str], flag: str) -> str | None:
    """The value of a flag, looked at before parsing: an environment decides which defaults a recipe has."""
    for index, argument in enumerate(arguments):
        if argument == flag and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith(f"{flag}="):
            return argument.partition("=")[2]
    return None


def _say_outcome(run: Any) -> None:
    summary = run.summary
    mean = summary["return_mean_100"]
    score = "no game finished" if mean is None else f"mean return of the last 100 games {mean:,.1f}"
    because = {
        "until": "reached its score",
        "steps": "did its steps",
        "interrupted": f"was interrupted and saved; `veldt resume {run.path}` goes on",
    }[run.reason]
    print(f"{run.path} {because}: {summary['steps']:,} steps in {summary['seconds']:.1f} s, {score}")


def _resume(arguments: list[str]) -> None:
    from veldt import api

    asked = _parse(Resume, arguments, "resume")
    changes = {name: value for name in ("steps", "until") if (value := getattr(asked, name)) is not None}
    _say_outcome(api.resume(asked.run, **changes))


def _evaluate(arguments: list[str]) -> None:
    import json

    import numpy as np

    from veldt import api

    asked = _parse(Evaluate, arguments, "evaluate")
    agent = api.load(asked.run, best=asked.best)
    begin = time.perf_counter()
    result = api.evaluate(agent, episodes=asked.episodes, seed=asked.seed, greedy=asked.greedy)
    scores = np.array(result.scores)
    figures = {
        "run": str(asked.run),
        "checkpoint_step": agent.step,
        "episodes": len(scores),
        "return_mean": float(scores.mean()),
        "return_std": float(scores.std()),
        "return_min": float(scores.min()),
        "return_median": float(np.median(scores)),
        "return_max": float(scores.max()),
        "length_mean": float(np.mean(result.lengths)),
        "seconds": time.perf_counter() - begin,
    }
    if asked.json:
        print(json.dumps(figures | {"scores": result.scores}))
        return
    print(
        f"{asked.run} at step {agent.step:,}: {len(scores)} whole games, raw return {scores.mean():,.1f} "
        f"± {scores.std():,.1f} (min {scores.min():,.0f}, median {np.median(scores):,.0f}, max {scores.max():,.0f}), "
        f"mean length {figures['length_mean']:,.0f} steps"
    )


def _watch(arguments: list[str]) -> None:
    from veldt import watch

    asked = _parse(Watch, arguments, "watch")
    print(watch.record(**dataclasses.asdict(asked)))


def _report(arguments: list[str]) -> None:
    from veldt.runs.directory import RunDirectory
    from veldt.runs.report import write_report

    asked = _parse(Report, arguments, "report")
    runs = [RunDirectory.open(path) for path in asked.runs]
    if not runs:
        raise UsageError("which run? veldt report RUN [RUN ...]")
    print(write_report([run.path for run in runs], asked.out or runs[0].report_path))


def _recipes(arguments: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    from veldt.recipe_book import RECIPES, find

    asked = _parse(Recipes, arguments, "recipes")
    console = Console()
    if asked.name is None:
        table = Table("recipe", "algorithm", "system", "what it is", box=None)
        for recipe in RECIPES.values():
            table.add_row(recipe.name, recipe.algorithm, recipe.system, recipe.summary)
        console.print(table)
        return
    recipe = find(asked.name)
    kind = "Atari" if asked.env.startswith("ALE/") else "small environments"
    table = Table("setting", "value", "unit", "source", title=f"{recipe.name} · {kind}", box=None)
    for row in recipe.table(asked.env):
        table.add_row(*row)
    console.print(table)
    other = "--env CartPole-v1 shows the values for small environments"
    console.print(other if kind == "Atari" else "without --env: the values for Atari", style="dim")


def _doctor(arguments: list[str]) -> None:
    from veldt import doctor

    asked = _parse(Doctor, arguments, "doctor")
    doctor.report(asked.env)


def _bench(arguments: list[str]) -> None:
    from veldt import bench

    asked = _parse(Bench, arguments, "bench")
    bench.report(**dataclasses.asdict(asked))
