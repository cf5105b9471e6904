"""Kills and stops random processes of training runs, and checks that each run goes on and leaves nothing behind.

    python benchmarks/soak.py --faults 1000                      # every recipe in turn, on this machine
    python benchmarks/soak.py --faults 60 --recipes impala a2c   # some recipes
    python benchmarks/soak.py --faults 60 --cluster local        # on Ray

A run trains with as many restarts as it needs while one of its processes at a time, drawn at random, is killed
(SIGKILL) or stopped (SIGSTOP). Then it is ended in a random way: Ctrl-C, SIGTERM, or SIGKILL of its main process, after
which it is resumed for a few steps. Checked are:

* named: an event of the run says what happened to the process that was hit;
* hung: the run trains on within a minute of each fault, and ends within 10 seconds of Ctrl-C or SIGTERM;
* left over: after the run no process, no shared memory and no temporary file of it is left;
* resumed: a run whose main process was killed continues from a checkpoint.

The runs have a temporary directory of their own and, where this process may mount one (as root on Linux), a /dev/shm.
Prints a Markdown table, a line for each failure, and exits with 1 if there is one. `--seed` repeats the choices.
`--results FILE` keeps what happened in a JSON file and adds to what is there: 1,000 faults take hours.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from veldt.runs.files import read_json_lines

START_S = 120.0  # for a run to begin training
TRAINS_ON_S = 60.0  # after a fault, until the run has done further steps
NAMED_S = 30.0  # after a fault, until an event names the process
ENDS_S = 10.0  # after Ctrl-C or SIGTERM
GONE_S = 5.0  # after the end, until nothing of the run is left
LATER_S = 20.0  # after that, to tell what is slow to end from what stays
FAULTS_IN_A_RUN = 5

# Small runs in which the processes of a recipe are all there. --max-restarts exists where a process can be restarted.
RUNS: dict[str, tuple[str, ...]] = {
    "a2c": ("--learners", "2", "--num-envs", "4"),
    "ppo": ("--env-backend", "workers", "--processes", "2", "--num-envs", "8", "--batch-size", "512"),
    "dqn": ("--learners", "2", "--num-envs", "4", "--buffer-size", "20000"),
    "c51": ("--learners", "2", "--num-envs", "4", "--buffer-size", "20000"),
    "rainbow": ("--learners", "2", "--num-envs", "4", "--buffer-size", "20000"),
    "ddpg": ("--env", "Pendulum-v1", "--learners", "2", "--num-envs", "4", "--buffer-size", "20000"),
    "a3c": ("--learners", "2", "--num-envs", "8"),
    "appo": ("--learners", "2", "--num-envs", "8", "--batch-size", "256"),
    "async-dqn": ("--learners", "2", "--num-envs", "8", "--buffer-size", "20000"),
    "ga3c": (),
    "gorila": ("--learners", "2", "--parameter-shards", "2", "--buffer-size", "20000"),
    "apex-dqn": ("--actors", "2", "--shards", "2", "--num-envs", "8", "--buffer-size", "20000"),
    "apex-ddpg": ("--env", "Pendulum-v1", "--actors", "2", "--num-envs", "8", "--buffer-size", "20000"),
    "impala": ("--actors", "2", "--num-envs", "8"),
}
_OF_ENVS = re.compile(
    r"env \d+ \(seed \d+\).* process"
)  # these events name the env that its process was stepping
WITHOUT_RESTARTS = {"ppo"}  # its processes are those of envs, which --on-env-error governs


@dataclass
class Tally:
    """What happened to the runs of one recipe."""

    faults: Counter[str] = field(default_factory=Counter)
    named: int = 0
    resumed: int = 0
    killed_mains: int = 0
    hung: int = 0
    left_over: int = 0
    failures: list[str] = field(default_factory=list)


class SoakedRun:
    """A training run in a process group of its own, in a directory of its own."""

    def __init__(self, recipe: str, seed: int, cluster: str | None) -> None:
        self.recipe = recipe
        self.place = Path(tempfile.mkdtemp(prefix="soak-"))
        self.run, self._tmp = self.place / "run", self.place / "tmp"
        self._tmp.mkdir()
        self._shared_before = _shared_memory()
        env = () if "--env" in RUNS[recipe] else ("--env", "CartPole-v1")
        restarts = () if recipe in WITHOUT_RESTARTS else ("--max-restarts", "100000")
        on_env_error = ("--on-env-error", "restart") if recipe in WITHOUT_RESTARTS else ()
        self._cluster = ("--cluster", cluster) if cluster else ()
        self._begin(
            *("train", recipe, "--run-dir", str(self.run), "--seed", str(seed)),
            *("--steps", "100000000", "--checkpoint-every", "2000", "--log-every", "0.5"),
            *(*env, *RUNS[recipe], *restarts, *on_env_error, *self._cluster),
        )

    def _begin(self, *arguments: str) -> None:
        output = (self.place / "output.txt").open("a")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "veldt", *arguments],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"TMPDIR": str(self._tmp)},
            start_new_session=True,
        )

    @property
    def output(self) -> str:
        return (self.place / "output.txt").read_text()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def steps(self) -> int:
        """Returns the steps of the newest row of metrics."""
        rows = read_json_lines(self.run / "metrics.jsonl")
        return int(rows[-1]["step"]) if rows else 0

    def events(self) -> list[str]:
        return [row["text"] for row in read_json_lines(self.run / "events.jsonl") if row["kind"] == "restart"]

    def processes(self) -> dict[str, psutil.Process]:
        """Returns the processes of roles and env processes by their names."""
        found = {}
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                name = process.name()
                # Else a fork server, Ray's own, or one that has no role yet.
                is_of_run = not name.startswith(("python", "ray", "gcs_server"))
                if is_of_run and process.status() != psutil.STATUS_STOPPED:
                    found[name] = process
        return found

    def family(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.Error:
            return []

    def resume(self) -> None:
        self._begin("resume", str(self.run), "--steps", str(self.steps() + 200_000_000), *self._cluster)

    def left_over(self, family: list[psutil.Process], within_s: float = GONE_S) -> list[str]:
        """Returns what is left of the ended run: its processes, shared memory and temporary files."""
        left: list[str] = []
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            left = [_described(process) for process in family if _is_alive(process)]
            left += [f"/dev/shm/{name}" for name in sorted(_shared_memory() - self._shared_before)]
            left += [str(path.relative_to(self.place)) for path in self._tmp.iterdir()]
            if not left:
                return []
            time.sleep(0.1)
        return left

    def remove(self) -> None:
        for process in [*self.family(), psutil.Process(self.process.pid)] if self.is_running else []:
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.process.wait(10)
        shutil.rmtree(self.place, ignore_errors=True)


def soak(recipe: str, tally: Tally, faults: int, rng: random.Random, cluster: str | None) -> None:
    """Trains one run under `faults` faults, ends it, and adds what happened to `tally`."""
    run = SoakedRun(recipe, rng.randrange(1000), cluster)
    try:
        if not _until(lambda: run.steps() > 0 or not run.is_running, START_S) or not run.is_running:
            tally.failures.append(f"{recipe} did not begin to train: {run.output[-500:]}")
            return
        for _ in range(faults):
            if not _hit(run, tally, rng):
                return
        _end(run, tally, rng)
    finally:
        run.remove()


def _hit(run: SoakedRun, tally: Tally, rng: random.Random) -> bool:
    """Kills or stops one process; returns whether the run has gone on."""
    time.sleep(rng.uniform(0.2, 3.0))
    _until(lambda: bool(run.processes()) or not run.is_running, START_S)
    processes = run.processes()
    if not processes:
        tally.failures.append(f"{run.recipe}: no process of the run is there to be hit: {run.output[-500:]}")
        return False
    name = rng.choice(sorted(processes))
    what = rng.choice(("killed", "killed", "stopped"))
    before = len(run.events())
    with contextlib.suppress(psutil.NoSuchProcess):
        processes[name].send_signal(signal.SIGKILL if what == "killed" else signal.SIGSTOP)
    tally.faults[what] += 1
    about = _OF_ENVS if name.startswith("env process") else re.compile(rf"\b{re.escape(name)}\b")
    is_named = _until(
        lambda: any(about.search(text) for text in run.events()[before:]) or not run.is_running,
        NAMED_S,
    )
    if is_named and run.is_running:
        tally.named += 1
    else:
        tally.failures.append(f"{run.recipe}: {name} was {what}, and the events are {run.events()[before:]}")
    steps = run.steps()
    if _until(lambda: run.steps() > steps or not run.is_running, TRAINS_ON_S) and run.is_running:
        return True
    tally.hung += run.is_running
    tally.failures.append(f"{run.recipe}: {name} was {what}, and the run did not go on: {run.output[-800:]}")
    return False


def _end(run: SoakedRun, tally: Tally, rng: random.Random) -> None:
    family, how = run.family(), rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
    run.process.send_signal(how)
    try:
        run.process.wait(ENDS_S)
    except subprocess.TimeoutExpired:
        tally.hung += 1
        began = time.monotonic()
        _until(lambda: not run.is_running, LATER_S)
        later = "is still there" if run.is_running else f"ended {time.monotonic() - began:.1f} s later"
        tally.failures.append(
            f"{run.recipe} did not end within {ENDS_S:g} s of {how.name} and {later} (load {os.getloadavg()[0]:.0f}): "
            f"{run.output[-800:]}"
        )
        return
    _look_for_what_is_left(run, tally, family, how.name)
    if how is signal.SIGKILL:
        tally.killed_mains += 1
        _resume(run, tally)
    elif not re.search("saved|no checkpoint|continues from the checkpoint", run.output.splitlines()[-1]):
        tally.failures.append(
            f"{run.recipe}: after {how.name} the last line is not about a checkpoint: {run.output[-1500:]}"
        )


def _resume(run: SoakedRun, tally: Tally) -> None:
    before = run.steps()
    run.resume()
    if _until(lambda: run.steps() > before or not run.is_running, START_S) and run.is_running:
        tally.resumed += 1
    else:
        tally.failures.append(f"{run.recipe} was not resumed: {run.output[-500:]}")
    family = run.family()
    run.process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.process.wait(ENDS_S)
    _look_for_what_is_left(run, tally, family, "a resumed run")


def _look_for_what_is_left(run: SoakedRun, tally: Tally, family: list[psutil.Process], after: str) -> None:
    if left := run.left_over(family):
        tally.left_over += 1
        later = run.left_over(family, LATER_S)
        tally.failures.append(
            f"{run.recipe}: {GONE_S:g} s after {after} there is {', '.join(left)}; "
            f"{LATER_S:g} s later {', '.join(later) or 'nothing'} (load {os.getloadavg()[0]:.0f})"
        )


def _shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _described(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"process {process.pid} ({' '.join(process.cmdline())[:80] or process.name()}, {process.status()})"
    return f"process {process.pid}"


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def table(tallies: dict[str, Tally]) -> str:
    """Returns the Markdown table of all recipes."""
    lines = [
        "| recipe | killed | stopped | named | hung | main processes killed | resumed | left over |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| `{recipe}` | {tally.faults['killed']} | {tally.faults['stopped']} | {tally.named} | {tally.hung} "
        f"| {tally.killed_mains} | {tally.resumed} | {tally.left_over} |"
        for recipe, tally in tallies.items()
    ]
    return "\n".join(lines)


def _read(results: Path | None) -> dict[str, Tally]:
    if results is None or not results.exists():
        return {}
    stored = json.loads(results.read_text())
    return {recipe: Tally(**tally | {"faults": Counter(tally["faults"])}) for recipe, tally in stored.items()}


def _write(results: Path, tallies: dict[str, Tally]) -> None:
    """Replaces the file, so that an interrupted benchmark leaves the whole of an earlier one."""
    new = results.with_suffix(".new")
    new.write_text(json.dumps({recipe: vars(tally) for recipe, tally in tallies.items()}))
    new.replace(results)


def _in_private_shared_memory(arguments: list[str]) -> int | None:
    """Runs this script again with a /dev/shm of its own; returns its exit code, or None where that is not allowed."""
    mount = 'mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
    try:
        subprocess.run([*command, "mount -t tmpfs tmpfs /dev/shm"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    child = [*command, mount, sys.executable, __file__, "--in-private-shared-memory", *arguments]
    return subprocess.run(child, check=False).returncode


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--recipes", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--cluster", default=None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=None)
    parser.add_argument("--in-private-shared-memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.in_private_shared_memory and (code := _in_private_shared_memory(arguments)) is not None:
        return code
    tallies = {recipe: Tally() for recipe in options.recipes} | _read(options.results)
    done = sum(tally.faults.total() for tally in tallies.values())
    rng = random.Random(options.seed + done)
    while done < options.faults:
        recipe = options.recipes[(done // FAULTS_IN_A_RUN) % len(options.recipes)]
        count = min(FAULTS_IN_A_RUN, options.faults - done)
        seen = len(tallies[recipe].failures)
        soak(recipe, tallies[recipe], count, rng, options.cluster)
        done += count
        if options.results is not None:
            _write(options.results, tallies)
        print(f"{done} of {options.faults} faults, {recipe}", file=sys.stderr, flush=True)
        for failure in tallies[recipe].failures[seen:]:
            print(failure, file=sys.stderr, flush=True)
    print(table(tallies))
    failures = [failure for tally in tallies.values() for failure in tally.failures]
    print("\n".join(["", f"{len(failures)} failures", *failures]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
