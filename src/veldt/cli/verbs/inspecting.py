"""The verbs that inspect runs and this machine.

Each parses before it imports what it needs, which takes seconds with torch: a mistyped flag is answered at once.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from veldt.cli.arguments import CommandLine, Positional, parse
from veldt.cli.run_code import RunCode
from veldt.cli.verbs.training import add_settings, parse_kwargs, peek
from veldt.errors import UsageError, did_you_mean
from veldt.evaluation.foreign_names import OF_EVALUATE, OF_WATCH, answer
from veldt.formatting import counted
from veldt.setting_text import flag


@dataclass(frozen=True, kw_only=True)
class Evaluate(RunCode):
    """Play episodes with a run's policy: whole ones, or from recorded starts."""

    run: Annotated[Path, Positional]
    """The directory of the run, or of an export."""
    episodes: int | None = None
    """Episodes to play; 30 if not given."""
    protocol: Literal["episodes", "atari", "human-starts"] | None = None
    """episodes: plays --episodes; atari: plays the run's --evaluate-steps (125,000), and the episodes that end in them
    count; human-starts: plays an episode from each of --starts, and rewards after the start count. If not given:
    human-starts with --starts, else episodes."""
    starts: Path | None = None
    """A file that veldt record-starts made."""
    seed: int = 0
    """Fixes the episodes."""
    greedy: bool = False
    """Take the best action instead of exploring as the algorithm does in evaluation."""
    best: bool = False
    """Use the checkpoint with the best mean return of 100 episodes instead of the newest."""
    json: bool = False
    """Print one JSON object."""


@dataclass(frozen=True, kw_only=True)
class Watch(RunCode):
    """Make a video of an episode: a new one, or a training episode replayed from its seed and actions."""

    run: Annotated[Path, Positional]
    """The run's directory."""
    episode: int | None = None
    """Index of a finished training episode to replay (0 is the first, -1 the last); a new episode if not given."""
    seed: int = 0
    """Fixes the new episode."""
    greedy: bool = False
    """Take the best action instead of exploring as the algorithm does in evaluation."""
    best: bool = False
    """Use the checkpoint with the best mean return of 100 episodes instead of the newest."""
    out: Path | None = None
    """The new file; in the run's videos/ if not given."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """One HTML file about one or several runs: curves, where the time went, settings.

    Runs that differ only in their seed are a group: the report has mean, median and interquartile mean of their scores,
    each with its 95% bootstrap interval, and compares the groups.
    """

    runs: Annotated[tuple[Path, ...], Positional]
    """Directories of runs."""
    out: Path | None = None
    """The file to write; report.html in the first run if not given."""
    score: float | None = None
    """Of several runs on one environment: show the steps and the time until the mean return of 100 episodes was at
    least this; if not given, for the --until of the runs."""


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Cores, GPUs, memory, what is installed, and the plan that training would use here. With --plan RECIPE, the plan
    of one run, with any flags of veldt train RECIPE, beside the speeds of its alternatives."""

    env: str = "CartPole-v1"
    """The environment to plan for; required with --plan."""
    plan: str | None = None
    """The recipe whose plan is shown, with the reason of each choice and the speeds of the alternatives."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The run that is planned."""

    env_kwargs: str = "{}"
    """Keyword arguments of the environment, as a JSON object."""
    algorithm: str | None = None
    """Another algorithm in the recipe's system: c51 in apex-dqn, say."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Speed beside the machine's own limit, measured in the same run."""

    what: Annotated[Literal["sampling", "training"], Positional]
    """sampling: stepping envs and inference; training: everything."""
    recipe: str = "a2c"
    """The recipe whose settings are used."""
    env: str = "ALE/Breakout-v5"
    """The environment."""
    num_envs: int = 0
    """Envs; 0 means the recipe's number."""
    processes: int = 0
    """Env processes; 0 chooses."""
    alternate: Literal["auto", "on", "off"] = "auto"
    """Whether two groups of envs take turns with inference."""
    resets: Literal["mid-batch", "wait"] = "mid-batch"
    """When envs are reset: at once, or after the rollout; steps of envs that wait do not count."""
    samplers: int = 1
    """Samplers side by side, each with --num-envs envs on its share of the cores. Two or more make rollouts as long
    as the recipe's, a single one of 32 steps: do not compare these."""
    barrier: bool = False
    """Whether samplers wait for each other after each rollout."""
    seconds: float = 5.0
    """Duration of each measurement."""
    json: bool = False
    """Print one JSON object."""


def evaluate(arguments: list[str]) -> str:
    asked = parse(Evaluate, arguments, "evaluate", partial(answer, OF_EVALUATE))
    import json

    import numpy as np

    from veldt import api
    from veldt.envs.source import ATARI_PREFIX
    from veldt.evaluation.evaluator import refuse_no_episode
    from veldt.report.normalising import human_normalised, is_normalisable

    agent = api.load(asked.run, best=asked.best, **asked.for_load)
    begin = time.perf_counter()
    result = api.evaluate(
        agent,
        episodes=asked.episodes,
        protocol=asked.protocol,
        starts=asked.starts,
        seed=asked.seed,
        greedy=asked.greedy,
    )
    refuse_no_episode(result, agent)
    scores = np.array(result.scores)
    metrics = {
        "run": str(asked.run),
        "checkpoint_step": agent.step,
        "episodes": len(scores),
        "ep_return_mean": float(scores.mean()),
        "ep_return_std": float(scores.std()),
        "ep_return_min": float(scores.min()),
        "ep_return_median": float(np.median(scores)),
        "ep_return_max": float(scores.max()),
        "ep_length_mean": float(np.mean(result.lengths)),
        "seconds": time.perf_counter() - begin,
    }
    starts = "no-op" if asked.starts is None else "human"
    normalised = ""
    if agent.config.env.startswith(ATARI_PREFIX) and is_normalisable(agent.config.env, starts):
        metrics["human_normalised"] = human_normalised(float(scores.mean()), agent.config.env, starts)
        normalised = f", human-normalised {metrics['human_normalised']:.3f} ({starts} starts)"
    if asked.json:
        more = {} if asked.starts is None else {"starts": str(asked.starts)}
        return json.dumps(metrics | more | {"scores": result.scores})
    played = counted(len(scores), "episode", "episodes")
    played += "" if asked.starts is None else f" from {asked.starts}"
    return (
        f"{asked.run} at step {agent.step:,}: {played}, raw return {scores.mean():,.1f} "
        f"± {scores.std():,.1f} (min {scores.min():,.0f}, median {np.median(scores):,.0f}, max {scores.max():,.0f}), "
        f"mean length {metrics['ep_length_mean']:,.0f} steps{normalised}"
    )


def watch(arguments: list[str]) -> str:
    asked = parse(Watch, arguments, "watch", partial(answer, OF_WATCH))
    from veldt.cli.verbs import watch

    return watch.record(
        asked.run, asked.episode, asked.seed, asked.greedy, asked.best, asked.out, asked.for_load
    )


def report(arguments: list[str]) -> str:
    asked = parse(Report, arguments, "report")
    from veldt.report import write_report
    from veldt.runs.directory import RunDirectory

    runs = [RunDirectory.open(path) for path in asked.runs]
    out = asked.out or runs[0].report_path
    return str(write_report([run.path for run in runs], out, asked.score))


def doctor(arguments: list[str]) -> str:
    if not any(word.partition("=")[0] == "--plan" for word in arguments):
        asked = parse(Doctor, arguments, "doctor", _why_plan)
        from veldt.cli.verbs import doctor

        doctor.report(asked.env)
        return ""
    from veldt.recipes import RECIPES, find
    from veldt.recipes.overrides import why_no_setting

    if (name := peek(arguments, "plan")) is None:
        raise UsageError(f"--plan is without a recipe: known are {', '.join(RECIPES)}")
    recipe, env = find(name), peek(arguments, "env")
    if env is None:
        raise UsageError(
            f"--env is missing: veldt doctor --plan {recipe.name} --env ENV plans a run in that environment"
        )
    draft = recipe.draft(env, peek(arguments, "algorithm"))
    line = CommandLine("doctor", Doctor.__doc__ or "", partial(why_no_setting, draft))
    line.add(Doctor)
    line.add(Planned, "environment")
    add_settings(line, draft)
    given = line.parse(arguments)
    from veldt.cli.verbs.plan_report import report_plan
    from veldt.networks.own import NO_PARTS
    from veldt.recipes.configure import configure
    from veldt.tracking.console import output_console

    env_kwargs = parse_kwargs(given.pop("env_kwargs", "{}"))
    settings = {key: value for key, value in given.items() if key not in ("plan", "env", "algorithm")}
    request = configure(recipe.name, env, env_kwargs, given.get("algorithm"), NO_PARTS, settings)
    report_plan(request, f"veldt train {recipe.name} --env {env}", output_console())
    return ""


def _why_plan(name: str) -> str | None:
    """Says that doctor takes a run's settings only with `--plan`; which those are is not looked up: it needs torch."""
    if did_you_mean(flag(name), [flag(field.name) for field in dataclasses.fields(Doctor)]):
        return None
    return (
        f"no flag {flag(name)}: only with --plan RECIPE does doctor take the settings of `veldt train RECIPE`"
    )


def bench(arguments: list[str]) -> str:
    asked = parse(Bench, arguments, "bench")
    from veldt.cli.verbs import bench

    bench.report(**dataclasses.asdict(asked))
    return ""
