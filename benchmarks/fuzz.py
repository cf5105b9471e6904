"""Damages the files of finished runs and of an export, one at a time, and opens them by every call that reads them.

    python benchmarks/fuzz.py                               # 300 damages of every kind of file
    python benchmarks/fuzz.py --mutations 20 dqn/manifest   # some of them
    python benchmarks/fuzz.py --only dqn/manifest/17        # one again, with its answers

Allowed is a call that gives what was stored, or takes an older whole checkpoint and says so, or raises VeldtError with
a sentence. Not allowed is another exception, an end of the process, a call of more than --deadline seconds of processor
time, more memory than --memory, a change of anything outside the run's directory, and weights other than those that
were stored. The table has a line for each kind of file; the exit code is 1 after a defect. Each damage follows from
--seed and its number.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz_mutations import Canary, damage

_HERE = Path(__file__).parent
_SMALL = {
    "checkpoint_every": 100,
    "log": "none",
    "log_every": 0.0,
    "quiet": True,
    "precision": "fp32",
    "threads": 1,
}
# How each run is trained: recipe, env, settings.
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ppo": (
        "ppo",
        "CartPole-v1",
        {"steps": 512, "num_envs": 2, "batch_size": 128, "minibatches": 2, "epochs": 1, "hidden": (8,)},
    ),
    "dqn": (
        "dqn",
        "CartPole-v1",
        {
            "steps": 400,
            "num_envs": 2,
            "hidden": (8,),
            "learning_starts": 100,
            "buffer_size": 1000,
            "batch_size": 16,
        },
    ),
    "atari": (
        "a2c",
        "ALE/Pong-v5",
        {"steps": 60, "num_envs": 1, "network": "dqn", "preprocessing": "84x84", "max_episode_steps": 20}
        | {"checkpoint_every": 30, "keep_checkpoints": 1},
    ),
}
RUNS["export"] = RUNS["ppo"]  # what is damaged is then an export of it
_EXPORT = ("load export", "evaluate export", "need a run", "replace export")
_READ, _PLAY = ("load", "resume"), ("load", "evaluate", "resume")
# Kinds of files: the run, the file's pattern (the newest of several), and the calls that read it.
KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "ppo/config": (
        "ppo",
        "config.json",
        ("load", "evaluate", "read", "report", "watch", "reproduce", "resume"),
    ),
    "ppo/summary": ("ppo", "summary.json", ("read", "report", "reproduce", "resume")),
    "ppo/metrics": ("ppo", "metrics.jsonl", ("read", "report", "resume")),
    "ppo/events": ("ppo", "events.jsonl", ("read", "report", "resume")),
    "ppo/episodes": ("ppo", "episodes.jsonl", ("watch", "reproduce", "resume")),
    "ppo/actions": ("ppo", "actions.bin", ("watch", "reproduce", "resume")),
    "ppo/lock": ("ppo", "lock", ("read", "report", "reproduce", "resume")),
    "ppo/manifest": ("ppo", "checkpoints/*/manifest.json", ("load", "evaluate", "reproduce", "resume")),
    "ppo/weights": ("ppo", "checkpoints/*/weights.safetensors", _PLAY),
    "ppo/optimiser": ("ppo", "checkpoints/*/optimiser.safetensors", _READ),
    "ppo/envs": ("ppo", "checkpoints/*/envs-0.safetensors", _READ),
    "ppo/episode state": ("ppo", "checkpoints/*/episodes-0.safetensors", _READ),
    "dqn/config": ("dqn", "config.json", ("load", "evaluate", "watch", "reproduce", "resume")),
    "dqn/manifest": ("dqn", "checkpoints/*/manifest.json", ("load", "reproduce", "resume")),
    "dqn/target": ("dqn", "checkpoints/*/target.safetensors", _READ),
    "dqn/replay state": ("dqn", "checkpoints/*/replay-0.safetensors", _READ),
    "dqn/segment": ("dqn", "replay/*/rows-*.safetensors", _READ),
    "atari/config": ("atari", "config.json", ("load", "watch", "resume")),
    "atari/episodes": ("atari", "episodes.jsonl", ("watch",)),
    "atari/actions": ("atari", "actions.bin", ("watch",)),
    "atari/starts": ("atari", "starts.safetensors", ("starts",)),
    "atari/envs": ("atari", "checkpoints/*/envs-0.safetensors", _READ),
    "atari/episode state": ("atari", "checkpoints/*/episodes-0.safetensors", _READ),
    "export/config": ("export", "config.json", _EXPORT),
    "export/weights": ("export", "model.safetensors", _EXPORT),
}


@dataclass
class Tally:
    """Answers about one kind of file."""

    damages: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    defects: list[str] = field(default_factory=list)

    def row(self, kind: str) -> str:
        """The line of the table."""
        counts = [self.answers[answer] for answer in ("loaded", "older", "refused", "defect")]
        return f"| {kind} | {self.damages} | {sum(counts)} | {' | '.join(map(str, counts))} |"


class Caller:
    """The process that opens the runs; a new one after one has ended."""

    def __init__(self, scratch: Path, deadline: float, memory: float) -> None:
        self._scratch, self._log = scratch, scratch / "log.txt"
        self._arguments = [sys.executable, str(_HERE / "fuzz_calls.py"), str(deadline), str(memory)]
        self._process: subprocess.Popen[str] | None = None

    def ask(self, case: dict[str, Any]) -> Any:
        """Returns the answer to a case; a defect if the process has ended instead."""
        if self._process is None:
            self._process = self._start()
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(case) + "\n")
        process.stdin.flush()
        if line := process.stdout.readline():
            return json.loads(line)
        self._process = None
        code = process.wait()
        # An exception is at the end of the log, and the innermost frame of a crash or of a deadline at its start.
        lines = self._log.read_text(errors="replace").splitlines()
        shown = lines[-12:] if code == 1 else [line for line in lines if "File" in line][:6]
        return ["defect", "\n".join([f"the process ended with code {code}:", *shown])]

    def _start(self) -> subprocess.Popen[str]:
        home = self._scratch / "home"
        places = {"HOME": home, "XDG_STATE_HOME": home / "state", "TMPDIR": home / "tmp"}
        for place in places.values():
            place.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **{name: str(place) for name, place in places.items()}}
        with self._log.open("w") as log:
            return subprocess.Popen(
                self._arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._scratch / "work",
                env=environment,
            )

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()


class Fuzz:
    """Runs trained for damage, in `scratch`, what is known of them, and the tree beside them that must not change."""

    def __init__(self, scratch: Path, seed: int, deadline: float, memory: float) -> None:
        self._scratch, self._seed = scratch, seed
        (scratch / "work").mkdir()
        self._caller = Caller(scratch, deadline, memory)
        self._known: dict[str, dict[str, Any]] = {}
        self.seconds: Counter[str] = Counter()

    def train(self, names: set[str]) -> None:
        """Trains the runs, and lets the calls say what they give without damage."""
        import veldt

        for name in sorted(names):
            recipe, env, settings = RUNS[name]
            whole = self._scratch / name / "whole"
            if name == "export":
                trained = veldt.train(
                    recipe, env=env, run_dir=whole.with_name("trained"), **(_SMALL | settings)
                )
                veldt.export(trained.path, out=whole, video=False, episodes=1)
                self._learn(name, {"call": "export reference", "run": str(whole)})
                continue
            veldt.train(recipe, env=env, run_dir=whole, **(_SMALL | settings))
            veldt.resume(whole, steps=settings["steps"] + 300, quiet=True)  # so that there are events
            if name == "atari":
                veldt.record_starts(whole, starts=2)
            case = {
                "call": "reference",
                "run": str(whole),
                "scratch": str(self._scratch),
                "is_atari": name == "atari",
            }
            self._learn(name, case)

    def _learn(self, name: str, case: dict[str, Any]) -> None:
        known = self._caller.ask(case)
        if isinstance(known, list):
            sys.exit(f"the run {name} cannot be used even without damage: {known[1]}")
        self._known[name] = known

    def damaged(self, kind: str, number: int) -> tuple[str, list[tuple[str, str, str]]]:
        """Damages a file of a copy of its run; returns how, and each call's answer: (call, answer, note)."""
        name, pattern, calls = KINDS[kind]
        rng = random.Random(f"{self._seed}/{kind}/{number}")
        room = self._scratch / name / "room"
        shutil.rmtree(room, ignore_errors=True)
        run, outside = room / "run", room / "canary"
        outside.mkdir(parents=True)
        canary = Canary(outside / "kept.txt", outside, outside / "new.txt")
        canary.file.write_text("kept\n")
        (outside / "step-000000000001").mkdir()
        (outside / "canary_module.py").write_text(f"open({str(canary.new)!r}, 'w').close()\n")
        shutil.copytree(self._scratch / name / "whole", run)
        shutil.copy(outside / "canary_module.py", run)
        path = sorted(run.glob(pattern))[-1]
        text, is_forged = damage(run, str(path.relative_to(run)), rng, canary)
        before, found = self._state(room, run), []
        if number % 3:  # these two take longest
            calls = tuple(call for call in calls if call not in ("report", "resume"))
        known = self._known[name]
        if is_forged:  # nobody knows what was stored
            known = {key: known[key] for key in ("resumed_to", "exported") if key in known}
        for call in calls:
            case = {
                "call": call,
                "run": str(run),
                "known": known,
                "is_own_config": not kind.endswith("config"),
            }
            begin = time.monotonic()
            answer, note = self._caller.ask(case)
            self.seconds[call] += time.monotonic() - begin
            if self._state(room, run) != before:
                answer, note, before = (
                    "defect",
                    f"something outside the run changed ({note})",
                    self._state(room, run),
                )
            found.append((call, answer, note))
        return text, found

    def _state(self, room: Path, run: Path) -> str:
        """Returns a digest of everything outside the run: names, kinds, sizes, times and content."""
        digest = hashlib.sha256()
        for folder in (room, self._scratch / "work", room.parent / "whole", room.parent / "trained"):
            for path in sorted(folder.rglob("*")):
                if path == run or run in path.parents:
                    continue
                found = path.lstat()
                digest.update(f"{path} {found.st_mode} {found.st_mtime_ns * path.is_file()}\n".encode())
                if folder == room and path.is_file():
                    digest.update(path.read_bytes())
        return digest.hexdigest()

    def close(self) -> None:
        self._caller.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", default=list(KINDS), help=f"some of {', '.join(KINDS)}")
    parser.add_argument("--mutations", type=int, default=300, help="damages of each kind of file")
    parser.add_argument("--only", metavar="KIND/NUMBER", help="one damage alone, with all its answers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--deadline",
        type=float,
        default=20.0,
        help="processor seconds of a call; six times as long is a hang",
    )
    parser.add_argument(
        "--memory", type=float, default=6.0, help="GB of address space of the process that calls"
    )
    asked = parser.parse_args()
    kinds = [asked.only.rpartition("/")[0]] if asked.only else asked.kinds
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"no kind of file '{unknown[0]}': known are {', '.join(KINDS)}")
    numbers = [int(asked.only.rpartition("/")[2])] if asked.only else range(asked.mutations)
    scratch = Path(tempfile.mkdtemp(prefix="veldt-fuzz-"))
    fuzz, tallies = Fuzz(scratch, asked.seed, asked.deadline, asked.memory), {}
    try:
        fuzz.train({KINDS[kind][0] for kind in kinds})
        for kind in kinds:
            tallies[kind] = tally = Tally()
            begin = time.monotonic()
            for number in numbers:
                how, answers = fuzz.damaged(kind, number)
                tally.damages += 1
                for call, answer, note in answers:
                    tally.answers[answer] += 1
                    if answer == "defect":
                        tally.defects.append(note)
                    if answer == "defect" or asked.only:
                        print(
                            f"{kind}/{number} ({how}), {call}: {answer}: {note}", file=sys.stderr, flush=True
                        )
            spent = ", ".join(f"{call} {seconds:.1f}" for call, seconds in fuzz.seconds.items())
            print(
                f"{time.monotonic() - begin:.0f} s ({spent}): {tally.row(kind)}", file=sys.stderr, flush=True
            )
            fuzz.seconds.clear()
    finally:
        fuzz.close()
        shutil.rmtree(scratch, ignore_errors=True)
    print("| file | damages | calls | as stored | from an older checkpoint | refused | defects |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for kind, tally in tallies.items():
        print(tally.row(kind))
    if any(tally.defects for tally in tallies.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
