"""How long an experiment takes on this machine, from the speed of a short run of each kind."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.errors import VeldtError
from veldt.experiments.experiment import Job, Training, needed_by
from veldt.experiments.machines import this_machine
from veldt.experiments.own_directory import AGAIN
from veldt.experiments.owned_process import OwnedProcess
from veldt.experiments.planning.kinds import kind_of, one_of_each_kind
from veldt.experiments.planning.memory import ENOUGH, Memory
from veldt.experiments.side_by_side import last_sentence
from veldt.experiments.speed import Speed, speed_of, speed_while_learning
from veldt.experiments.workspace import Workspace
from veldt.formatting import as_float, counted
from veldt.recipes import find
from veldt.recipes.overrides import build_config
from veldt.runs import strict_json
from veldt.runs.directory import RunDirectory
from veldt.runs.files import says_full, write_atomically
from veldt.runs.own_files import remove_own_tree
from veldt.runs.own_names import OF_RUN
from veldt.runtime.cores import allowed_cores
from veldt.tracking.metrics import read_metrics

_PROBE_S = 3.0  # of training with updates, at least, after which a probe is interrupted
_MOST_S = 60.0  # with hundreds of envs, much of the time to the first update is their random first steps
_OF_FIRST = 0.8  # of the time to the first update: the second rollout of a run takes a little less time than the first
# Until the first row of metrics, and from then on: on busy cores tens of processes start slowly, and the rollouts of
# hundreds of envs and updates with large batches take seconds each.
_PROBE_DEADLINE_S = 300.0
_END_S = 20.0
_START_S = 4.0  # of a run, before its first step
_FASTEST = 1e6  # agent steps per second, more than any run makes


def seconds_of(job: Job, steps: int, speeds: Mapping[str, float]) -> float:
    """Returns the seconds that a job takes, alone on its cores; NaN if its speed is.

    `steps` are those that a training still makes.
    """
    if not isinstance(job, Training):
        return job.seconds
    return _START_S + steps / speeds[kind_of(job)]


def least_seconds(job: Job, steps: int) -> float:
    """Returns seconds that a job takes on any machine, before its speed here is known."""
    return seconds_of(job, steps, defaultdict(lambda: _FASTEST))


def total_seconds(seconds: Mapping[Job, float], memory: Memory = ENOUGH) -> float:
    """Returns how long jobs take side by side, from how long each takes alone.

    As in `Scheduler`: in their order, each as soon as it fits and what it needs is done.
    """
    cores = free = len(allowed_cores())
    now, order = 0.0, itertools.count()
    waiting, unfinished = list(seconds), set(seconds)
    running: list[tuple[float, int, int, Job]] = []  # a heap: end, a number that no other has, cores, the job
    while waiting:
        job = next((one for one in waiting if needed_by(one) not in unfinished), None)
        wanted = min(job.cores or cores, cores) if job else 0
        if job is None or wanted > free or not memory.fits(job, [one for *_, one in running]):
            now, _, returned, ended = heapq.heappop(running)
            free += returned
            unfinished.remove(ended)
            continue
        waiting.remove(job)
        heapq.heappush(running, (now + seconds[job], next(order), wanted, job))
        free -= wanted
    return max((end for end, *_ in running), default=0.0)


def measure_speeds(
    workspace: Workspace, jobs: Sequence[Job], note: Callable[[str], None]
) -> dict[str, float]:
    """Returns the steps per second of each kind of training among the jobs, from runs and probes.

    A kind is measured once on each machine, by a run of a few seconds, and kept in the experiment's directory. `note`
    gets a sentence before each. The speed of a kind whose run fails is NaN, after a sentence with the cause: its runs
    may fail as well, or be too slow to be measured only.

    Raises:
        VeldtError: the disk is full.
    """
    path = workspace.speeds_path
    machine, by_machine = this_machine(), workspace.read_json(path) if path.exists() else {}
    stored = by_machine.get(machine)
    # What was changed from outside and is no speed is measured again.
    known = stored.items() if isinstance(stored, dict) else ()
    speeds = {kind: speed for kind, value in known if 0 < (speed := as_float(value)) < math.inf}
    probes, failed = [job for job in one_of_each_kind(jobs) if kind_of(job) not in speeds], list[str]()
    if probes:
        note(_about(jobs, probes))
    for number, job in enumerate(probes, 1):
        note(f"{number}/{len(probes)} {job.recipe} on {job.env}, {job.group}")
        try:
            speeds[kind_of(job)] = _probed(job, workspace.root / "probe")
        except VeldtError as error:
            if says_full(str(error)):
                raise
            note(f"not measured: {error}")
            failed.append(kind_of(job))
        kept = strict_json.dumps({**by_machine, machine: speeds}).encode()
        write_atomically(path, kept, "the measured speeds", AGAIN)
    return speeds | dict.fromkeys(failed, math.nan)


def _about(jobs: Sequence[Job], probes: Sequence[Training]) -> str:
    """Returns a sentence on what is measured."""
    trainings = [job for job in jobs if isinstance(job, Training)]
    envs, measured = ({job.env for job in some} for some in (trainings, probes))
    where = f", on {len(measured)} of {len(envs)} environments" if measured < envs else ""
    return f"measuring the speed of {counted(len(probes), 'kind of run', 'kinds of runs')}, some seconds each{where}:"


def _probed(job: Training, scratch: Path) -> float:
    """Returns the steps per second of a run like the job's, from its first updates on. VeldtError if it fails."""
    if scratch.exists():
        remove_own_tree(scratch, OF_RUN)
    cores = allowed_cores()[: job.cores or None]
    with tempfile.TemporaryFile() as stderr:
        command = dataclasses.replace(job, settings=probe_settings(job)).command(scratch)
        process = OwnedProcess(command, subprocess.DEVNULL, stderr, cores)
        try:
            until, speed = time.monotonic() + _PROBE_DEADLINE_S, None
            rows: list[dict[str, Any]] = []
            while process.poll() is None and time.monotonic() < until and not is_long_enough(rows):
                time.sleep(0.25)
                before, rows = rows, _rows(scratch)
                speed = _measured(rows) or speed
                if rows and not before:
                    until = time.monotonic() + _PROBE_DEADLINE_S
            code = process.poll()  # None: it has not ended by itself
            speed = _measured(_rows(scratch)) or _of_whole(scratch) or speed
        finally:
            process.interrupt()
            process.wait(_END_S)
            process.close()
        if scratch.exists():
            remove_own_tree(scratch, OF_RUN)
        if speed is None:
            why = (code is not None and last_sentence(stderr, code)) or "it was too slow to be measured"
            raise VeldtError(f"{job.recipe} on {job.env} did not train: {why}")
    return speed.steps_per_second


def probe_settings(job: Training) -> dict[str, Any]:
    """Returns the settings of a run that is measured: it learns from its first seconds on, also from replay."""
    settings = {**job.settings, "log": "none", "log_every": 0.5}
    config = build_config(find(job.recipe).draft(job.env), job.settings)
    if isinstance(config.learn, OffPolicyConfig):
        batches = max(config.batch_sizes.values()) * config.roles.learners
        settings |= {"learning_starts": max(1_000, 2 * batches), "checkpoint_replay": "none"}
    return settings


def is_long_enough(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether a run has learned for some seconds, and about as long as it took to its first update.

    Learners that do not wait for each other end their first rollouts at about the same time, and it takes another
    rollout until they have steps to show again: between the two, the speed of all steps so far would be several times
    too high.
    """
    speed = speed_while_learning(rows)
    if speed is None:
        return False
    first = next(row for row in rows if row.get("train/updates"))
    until_first = first["seconds"] - rows[0]["seconds"]
    return speed.seconds >= max(_PROBE_S, min(_OF_FIRST * until_first, _MOST_S))


def _rows(run: Path) -> list[dict[str, Any]]:
    return read_metrics(run) if run.exists() else []


def _measured(rows: Sequence[Mapping[str, Any]]) -> Speed | None:
    """Returns the speed of a run since its first update; over 0 seconds, of a run that has not made one yet."""
    before = speed_of(rows)
    return speed_while_learning(rows) or (before and before._replace(seconds=0.0))


def _of_whole(run: Path) -> Speed | None:
    """Returns the speed of a run that has ended already."""
    summary = RunDirectory(run).read_summary() if run.exists() else None
    seconds = as_float((summary or {}).get("seconds"))
    return Speed(as_float((summary or {}).get("steps")) / seconds, seconds) if seconds > 0 else None
