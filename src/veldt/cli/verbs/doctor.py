"""`veldt doctor`: what is on this machine, and what training would do with it."""

from __future__ import annotations

import os
import shutil

import psutil
import torch
from rich.padding import Padding
from rich.table import Table

from veldt.config.run_request import RunRequest
from veldt.envs.source import resolve
from veldt.errors import UsageError
from veldt.formatting import gib
from veldt.recipes import plain_recipes
from veldt.registry import broken_plugins_shown, installed_plugins, plugin_distributions
from veldt.runs.machine import ENGINES, versions
from veldt.runtime.cores import allowed_cores
from veldt.systems.planning.checks import check_plan
from veldt.systems.planning.run_plan import make_run_plan
from veldt.tracking.console import output_console


def report(env: str) -> None:
    """Prints what is on this machine, and the plan of each recipe for `env`."""
    console = output_console()
    installed_plugins()
    table = Table(box=None, show_header=False)
    cores = allowed_cores()
    table.add_row("cores", f"{len(cores)} of {os.cpu_count()} may be used ({', '.join(map(str, cores))})")
    memory = psutil.virtual_memory()
    table.add_row("memory", f"{gib(memory.available)} of {gib(memory.total)} free")
    if os.path.isdir("/dev/shm"):
        table.add_row("shared memory", f"{gib(shutil.disk_usage('/dev/shm').free)} free in /dev/shm")
    table.add_row("disk", f"{gib(shutil.disk_usage('.').free)} free here")
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    table.add_row("GPUs", ", ".join(gpus) or "none that torch can use")
    found = versions((*ENGINES, *plugin_distributions.values()))
    table.add_row("installed", ", ".join(f"{name} {version}" for name, version in found.items()))
    for package, extra in (("ale_py", "atari"), ("imageio_ffmpeg", "video")):
        if not _importable(package):
            table.add_row("missing", f"{package}: pip install 'veldt[{extra}]'")
    for line in broken_plugins_shown():
        table.add_row("broken", line)
    if busy := why_measured_badly():
        table.add_row("warning", busy)
    console.print(table)
    source = resolve(env)
    for recipe in plain_recipes().values():
        console.print(f"\n[bold]veldt train {recipe.name} --env {env}[/bold] would use")
        try:
            run_plan = make_run_plan(RunRequest(recipe.config(source.name), source))
            decisions = (*run_plan.decisions, *check_plan(run_plan, None))
        except UsageError as error:  # the recipe is for other action spaces
            decisions = (str(error),)
        for decision in decisions:
            console.print(Padding(decision, (0, 0, 0, 2), expand=False), highlight=False)


def why_measured_badly() -> str:
    """Returns a sentence if other programs use the machine, else ""."""
    load = os.getloadavg()[0]
    busy = load > 0.5 * len(allowed_cores())
    return f"the machine is busy (load {load:.1f}): measurements and plans will be off" if busy else ""


def _importable(package: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False
