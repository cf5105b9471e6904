"""`veldt doctor --plan`: the plan of one run on this machine, beside the speeds of what it could have been."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table

from veldt.cli.verbs.bench_rates import sampling_speed
from veldt.cli.verbs.doctor import why_measured_badly
from veldt.config.run_request import RunRequest
from veldt.config.train_config import TrainConfig
from veldt.envs.arrangement import WORTH_PROCESSES, Arrangement, arrange
from veldt.errors import EnvError
from veldt.formatting import counted
from veldt.networks.precision import Network
from veldt.recipes import find
from veldt.runtime.cores import allowed_cores
from veldt.runtime.devices import accelerator_name, choose_device, num_accelerators
from veldt.runtime.devices import training_threads as all_threads
from veldt.systems.planning.autotune import WORTH_BF16, WORTH_THREADS, is_small, stays_in_fp32
from veldt.systems.planning.checks import check_plan, check_request
from veldt.systems.planning.run_plan import RunPlan, make_run_plan

_SECONDS = 0.5  # of each measurement of sampling
_PLACES: tuple[tuple[Literal["in-process", "workers"], Literal["on", "off"]], ...] = (
    ("in-process", "off"),
    ("workers", "off"),
    ("workers", "on"),
)
# The setting that is the number of processes that act, and what one of them and several are called.
_ACTING = {"actors": ("actor", "actors"), "agent_processes": ("process of agents", "processes of agents")}
_CLEARLY = 1.2  # times as fast: less is noise between two measurements


@dataclass(frozen=True)
class Alternative:
    """One of the possible values of a choice: `flags` take it, and `failure` says why it has no speed."""

    name: str
    flags: str
    sps: float
    is_chosen: bool
    failure: str = ""


@dataclass(frozen=True)
class Decision:
    """What `auto` has decided, why, and what else there was; without alternatives, it is decided without measuring.

    `unit` is what the speeds of the alternatives count.
    """

    what: str
    why: str
    alternatives: Sequence[Alternative] = ()
    unit: str = "steps per second"

    @property
    def advice(self) -> str:
        """A sentence if something else was clearly faster than what was chosen, else ""."""
        chosen = next((one.sps for one in self.alternatives if one.is_chosen), 0.0)
        best = max(self.alternatives, key=lambda one: one.sps, default=None)
        if best is None or not chosen or best.sps < _CLEARLY * chosen:
            return ""
        return f"{best.name} was {best.sps / chosen:.1f} times as fast now: {best.flags} takes it"


def report_plan(request: RunRequest, command: str, console: Console) -> None:
    """Prints the plan of the run, and each choice with its reason and the speeds of its alternatives.

    Args:
        command: that trains it, for the title.

    Raises:
        UsageError: `veldt train` would refuse the run.
    """
    check_request(request, None)
    run_plan = make_run_plan(request)
    warnings = check_plan(run_plan, None)
    if busy := why_measured_badly():
        console.print(f"warning: {busy}", highlight=False, soft_wrap=True)
    console.print(f"[bold]{command}[/bold] would use", soft_wrap=True)
    for line in (*run_plan.decisions, *warnings):
        console.print(f"  {line}", highlight=False, soft_wrap=True)
    for decision in decisions_of(request, run_plan):
        console.print(f"\n[bold]{decision.what}[/bold]: {decision.why}", highlight=False, soft_wrap=True)
        if not decision.alternatives:
            continue
        table = Table("", decision.unit, "", box=None)
        for one in decision.alternatives:
            speed = one.failure or f"{one.sps:,.0f}"
            table.add_row(f"  {one.name}", speed, "chosen" if one.is_chosen else one.flags)
        console.print(table, highlight=False)
        if decision.advice:
            console.print(decision.advice, highlight=False, soft_wrap=True)


def decisions_of(request: RunRequest, run_plan: RunPlan) -> list[Decision]:
    """Returns all that was left open, with the alternatives measured."""
    config = request.config
    envs = _envs(config, run_plan) if config.in_one_process else _roles(request, run_plan)
    return [_device(config, run_plan), envs, _updates(config, run_plan)]


def _device(config: TrainConfig, run_plan: RunPlan) -> Decision:
    what = f"device {run_plan.device}"
    if config.run.device != "auto":
        return Decision(what, "as asked")
    if run_plan.device.type == "cpu":
        found = choose_device("auto").type != "cpu"
        return Decision(
            what, "too small to gain from the GPU" if found else "torch finds no GPU that it can use"
        )
    number = num_accelerators(run_plan.device)
    return Decision(
        what, f"{accelerator_name(run_plan.device)}; torch finds {counted(number, 'GPU', 'GPUs')}"
    )


def _roles(request: RunRequest, run_plan: RunPlan) -> Decision:
    """Returns the choice of processes where a run has several; they are not measured."""
    roles, cores = run_plan.config.roles, counted(len(allowed_cores()), "core", "cores")
    if not roles.has_acting_processes:
        return Decision(
            "processes", f"{run_plan.arrangement.reason}; the {cores} are shared out among the learners"
        )
    name = next((name for name in _ACTING if hasattr(roles, name)), None)
    if name is None:
        return Decision("processes", "as the settings of the system say; their number is not measured")
    number = counted(getattr(roles, name), *_ACTING[name])
    if getattr(request.config.roles, name):
        return Decision("processes", f"{number}, {_source_of(name, request)}; another number is not measured")
    envs = counted(request.config.envs.num_envs, "env", "envs")
    why = f"as many as share {envs} evenly, at most one for each of the {cores} (a core less for each accelerator)"
    return Decision("processes", f"{number}, {why}; another number is not measured")


def _source_of(name: str, request: RunRequest) -> str:
    """Returns where the value of a setting comes from."""
    if name in request.given:
        return "as asked"
    config = request.config
    sourced = find(config.recipe).settings(config.env, config.algorithm).get(name)
    return "the default" if sourced is None else f"the recipe's value ({sourced.source})"


def _envs(config: TrainConfig, run_plan: RunPlan) -> Decision:
    chosen = run_plan.arrangement
    where = "in this process" if chosen.backend == "in-process" else "in worker processes"
    rule = f"; processes are worth it where each steps for {WORTH_PROCESSES:g} times the time of a message"
    if config.envs.env_backend != "auto":
        rule = ""
    alternatives = []
    for option in _arrangements(config, run_plan):
        is_chosen = (option.backend, option.processes, option.groups) == (
            chosen.backend,
            chosen.processes,
            chosen.groups,
        )
        alternatives.append(_sampled(run_plan, option, is_chosen))
    return Decision("where envs run", f"{where} ({chosen.reason}{rule})", alternatives)


def _arrangements(config: TrainConfig, run_plan: RunPlan) -> list[Arrangement]:
    """Returns the places of envs that the settings leave open, that of the run plan among them."""
    envs, found = config.envs, [run_plan.arrangement]
    is_open = envs.env_backend == "auto" and not envs.processes
    for backend, alternate in _PLACES:
        if not is_open and backend != run_plan.arrangement.backend:
            continue
        if alternate == "on" and envs.num_envs < 2:
            continue
        asked = alternate if envs.alternate == "auto" else envs.alternate
        one = dataclasses.replace(envs, env_backend=backend, alternate=asked)
        found.append(arrange(run_plan.source, one, config.atari, min(num_accelerators(run_plan.device), 1)))
    unique = {(one.backend, one.processes, one.groups): one for one in reversed(found)}
    return [unique[key] for key in sorted(unique)]


def _sampled(run_plan: RunPlan, option: Arrangement, is_chosen: bool) -> Alternative:
    groups = "two alternating groups" if option.groups == 2 else "one group"
    alternate = f"--alternate {'on' if option.groups == 2 else 'off'}"
    if option.backend == "in-process":
        name, flags = f"in this process, {groups}", "--env-backend in-process"
    else:
        name = f"{counted(option.processes, 'worker process', 'worker processes')}, {groups}"
        flags = f"--env-backend workers {alternate}"
    changed = dataclasses.replace(run_plan.config, envs=option.resolve(run_plan.config.envs))
    try:
        sps = sampling_speed(dataclasses.replace(run_plan, config=changed, arrangement=option), _SECONDS)
    except EnvError as error:
        return Alternative(name, flags, 0.0, is_chosen, failure=str(error))
    return Alternative(name, flags, sps, is_chosen)


def _updates(config: TrainConfig, run_plan: RunPlan) -> Decision:
    network, run = run_plan.network()[0], run_plan.config.run
    on_cpu = run_plan.device.type == "cpu"
    many = all_threads(0)
    precisions = [run.precision]
    if config.run.precision == "auto" and not stays_in_fp32(network):
        precisions = ["fp32", "bf16"]
    threads = sorted({1, many, run.threads}) if on_cpu and not config.run.threads else [run.threads]
    kinds = [(precision, number) for precision in precisions for number in threads]
    seconds, rows = run_plan.time_arithmetic(kinds), run_plan.update_rows
    alternatives = []
    for (precision, number), taken in seconds.items():
        flags = f"--precision {precision}" + (f" --threads {number}" if on_cpu else "")
        name = precision + (f", {counted(number, 'thread', 'threads')}" if on_cpu else "")
        is_chosen = (precision, number) == (run.precision, run.threads)
        alternatives.append(Alternative(name, flags, rows / taken, is_chosen))
    why = f"{_why_precision(config, network)}; {_why_threads(config, network)}" if on_cpu else ""
    why = why or _why_precision(config, network)
    return Decision(f"updates of {rows:,} steps", why, alternatives, "steps learned from per second")


def _why_precision(config: TrainConfig, network: Network) -> str:
    if config.run.precision != "auto":
        return f"{config.run.precision} as asked"
    if stays_in_fp32(network):
        return "fp32, since no part of the network is known to tolerate less"
    if is_small(network):
        return "fp32, since a small network gains nothing from less"
    return f"bf16 only where it is {WORTH_BF16:g} times as fast"


def _why_threads(config: TrainConfig, network: Network) -> str:
    if config.run.threads:
        return f"{counted(config.run.threads, 'thread', 'threads')} as asked"
    if config.roles.has_acting_processes or config.roles.learners > 1:
        return "threads are shared out among the processes, without measuring"
    if is_small(network):
        return "one thread, since a small network gains too little from a second one"
    return f"more than one thread only where they are {WORTH_THREADS:g} times as fast, since they wait for each other"
