"""The directory of one run: paths, configuration, summary, events, and the lock of the training process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO

from veldt.errors import UsageError, VeldtError, did_you_mean
from veldt.runs import strict_json
from veldt.runs.export_files import is_export
from veldt.runs.files import (
    AppendFile,
    explained,
    from_here,
    open_to_read,
    read_file,
    read_json_lines,
    write_atomically,
)
from veldt.runs.machine import describe_machine
from veldt.runs.own_files import open_in_place
from veldt.runs.own_names import CHECKPOINTS, CONFIG, EVENTS, LOCK, REPLAY, SUMMARY
from veldt.setting_metadata import check_path

# Locks that this process holds. A forked worker would inherit them and hold them after its parent was killed.
_held: set[IO[str]] = set()
os.register_at_fork(after_in_child=lambda: [file.close() for file in _held])


_RESTORE = (
    "; restore it from a copy: the checkpoints beside it are as they were, and cannot be read without it"
)
# Sections of config.json besides the resolved settings, which older runs may lack.
_SECTIONS: Mapping[str, type[dict[str, Any]] | type[list[Any]]] = {
    "given": dict,
    "command": list,
    "versions": dict,
    "hardware": dict,
    "replaced": list,
}


class RunDirectory:
    """The directory of one run.

    `path` is the directory as it was named, for sentences. `place` is where it is, also when an environment of this
    process has changed the working directory; `checkpoints`, `replay`, `videos` and `report_path` are paths inside it
    (made by their writers).

    Args:
        base: the absolute directory that a relative `path` begins at; None: the working directory.
    """

    def __init__(self, path: Path, base: str | Path | None = None) -> None:
        self.path = Path(path)
        self.place = self.path.absolute() if base is None else Path(base) / self.path
        self.checkpoints = self.place / CHECKPOINTS
        self.replay = self.place / REPLAY
        self.had_checkpoint = False  # set where one is written: it may have been removed since
        self._locked = -1  # a descriptor of the directory, while this object has locked it

    @property
    def path_from_here(self) -> Path:
        """`path`, or `place` where the working directory has changed since."""
        return from_here(self.path, self.place)

    @property
    def videos(self) -> Path:
        return self.path_from_here / "videos"

    @property
    def report_path(self) -> Path:
        return self.path_from_here / "report.html"

    @classmethod
    def create(cls, root: Path, name: str, base: str | Path | None = None) -> RunDirectory:
        """Makes `root/name`, or `root/name-run2`, `-run3`, ... if taken; two processes never get the same one.

        `base` is as for the class.
        """
        if not name or name in (".", "..") or "/" in name or "\0" in name:
            raise UsageError(
                f"{name!r} cannot be the name of a run: give a plain directory name such as 'ppo-cartpole'"
            )
        number = 1
        while True:
            new = cls(Path(root) / (name if number == 1 else f"{name}-run{number}"), base)
            with explained("a new run", new.path, instead="name another directory by --run-dir"):
                try:
                    new.place.parent.mkdir(parents=True, exist_ok=True)
                    new.place.mkdir()
                    return new
                except FileExistsError:
                    if not new.place.parent.is_dir():
                        raise NotADirectoryError(errno.ENOTDIR, f"{root} is not a directory") from None
            number += 1

    @classmethod
    def open(cls, run: str | os.PathLike[str]) -> RunDirectory:
        """Returns the existing run in the directory `run`; UsageError with the closest name if there is none, or if the
        directory, or one above it, may not be entered."""
        check_path("run", run, required=True)
        try:
            return cls._existing(Path(run))
        except PermissionError as error:
            raise UsageError(f"{run} cannot be read: {error.strerror}") from error

    @classmethod
    def _existing(cls, path: Path) -> RunDirectory:
        if is_export(path):
            raise UsageError(
                f"{path} is an export, the policy of a run without the run: `veldt evaluate` and veldt.load take it; "
                "give the run's own directory instead"
            )
        if (path / CONFIG).is_file():
            return cls(path)
        if (path / CONFIG).exists():
            raise UsageError(f"{path} is not a veldt run: its {CONFIG} is not a regular file")
        known = [str(run) for folder in (path.parent, Path("runs")) for run in _runs_in(folder)]
        here = [run for run in known if Path(run).name == path.name]
        hint = f" (did you mean '{here[0]}'?)" if here else did_you_mean(str(path), known)
        if inside := _runs_in(path):
            hint = f"; it has runs in it ({len(inside)}), such as {inside[0]}"
        if around := next((folder for folder in path.parents if (folder / CONFIG).is_file()), None):
            hint = f"; it is in the run {around}"
        what = f"it has no {CONFIG}" if path.exists() else "there is no such directory"
        raise UsageError(f"{path} is not a veldt run: {what}{hint}")

    def write_config(
        self,
        given: Mapping[str, Any],
        resolved: Mapping[str, Any],
        command: Sequence[str],
        versions: Mapping[str, str],
        hardware: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes config.json: an id of the run, the settings as given and as resolved, the command line, versions and
        hardware.

        `hardware` (usable cores, a GPU's name) is added to what is always written: processor, memory, operating system.
        """
        config = {
            "id": secrets.token_hex(8),
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "command": list(command),
            "given": given,
            "resolved": resolved,
            "versions": versions,
            "hardware": {**describe_machine(), **(hardware or {})},
        }
        self._write_json(CONFIG, config, "the settings")

    def read_config(self) -> dict[str, Any]:
        """Reads config.json, with the keys of `write_config`; UsageError if damaged."""
        config = self._read_json(CONFIG, _RESTORE)
        if config is None:
            raise UsageError(f"{self.path} has no {CONFIG}: it is not a veldt run")
        if not isinstance(config.get("resolved"), dict):
            raise UsageError(
                f"{self.path / CONFIG} has no resolved settings: it is not as veldt wrote it{_RESTORE}"
            )
        for name, kind in _SECTIONS.items():
            if not isinstance(config.get(name, kind()), kind):
                raise UsageError(
                    f"{self.path / CONFIG} has a section {name} that is not as veldt wrote it{_RESTORE}"
                )
        return config

    def change_config(self, section: str, settings: Mapping[str, Any]) -> None:
        """Overwrites settings of a section in config.json, both as given and as resolved.

        What it replaces is added to the list "replaced": the run has trained with it so far.
        """
        if not settings:
            return
        config = self.read_config()
        resolved = config["resolved"].get(section)
        before = resolved if isinstance(resolved, dict) else {}
        replaced = {name: before.get(name) for name, value in settings.items() if before.get(name) != value}
        if replaced:
            config.setdefault("replaced", []).append(replaced)
        for whole in (config.setdefault("given", {}), config["resolved"]):
            before = whole.get(section)
            whole[section] = {**(before if isinstance(before, dict) else {}), **settings}
        self._write_json(CONFIG, config, "the settings")

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Writes the final metrics to summary.json (keys in docs/metrics.md); raises also as `check_in_place`."""
        self.check_in_place()
        self._write_json(SUMMARY, summary, "the summary")

    def read_summary(self) -> dict[str, Any] | None:
        """Returns the final metrics, or None while the run trains and after a kill.

        Raises:
            UsageError: the file is damaged.
        """
        command = f"veldt resume {shlex.quote(str(self.path))}"
        mend = f"; `{command}` writes it anew (without it, the run counts as broken off)"
        return self._read_json(SUMMARY, mend)

    def write_event(self, step: int, kind: str, text: str) -> None:
        """Appends an event at agent step `step` to events.jsonl; `kind` is a word such as "restart" or "resume".

        Raises also as `check_in_place`.
        """
        self.check_in_place()
        row = {"time": time.time(), "step": step, "kind": kind, "text": text}
        with contextlib.closing(AppendFile(self.place / EVENTS, "an event")) as file:
            file.drop_torn_line()
            file.append(strict_json.dumps(row).encode() + b"\n")

    def read_events(self) -> list[dict[str, Any]]:
        """Returns the events in the order of writing, keys `time` (seconds since 1970) `step kind text`."""
        return read_json_lines(self.place / EVENTS)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the run, so that no other process trains in it; UsageError names the process that holds the lock.

        The kernel releases the lock when the process ends, in whatever way.
        """
        path = self.place / LOCK
        with explained("the lock", path):
            file = os.fdopen(open_in_place(path, os.O_RDWR | os.O_APPEND), "a+")
        with file:
            if not _acquire(file):
                pid = _read_pid(file)
                raise UsageError(
                    f"{self.path} is being trained by process {pid}: wait for it, stop it with `kill {pid}`, "
                    "or start a new run"
                )
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            _held.add(file)
            # Open, so that no directory that is made later has its number.
            self._locked = os.open(self.place, os.O_RDONLY | os.O_CLOEXEC)
            try:
                yield
            finally:
                os.close(self._locked)
                self._locked = -1
                _held.discard(file)

    def check_in_place(self) -> None:
        """VeldtError if somebody has removed, moved or replaced the directory since it was locked here.

        What is written by path would make another directory, with a part of the run; files that were open stay with the
        old one.
        """
        if self._locked < 0:
            return
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if os.path.samestat(os.fstat(self._locked), os.stat(self.place)):
                return
        raise VeldtError(
            f"the run's directory {self.path} was removed, moved or replaced while the run trained in it, so nothing "
            "more can be recorded: train again, or, if it was moved, `veldt resume` it where it is now"
        )

    def is_locked(self) -> bool:
        """Whether a process, this one included, holds the lock."""
        try:
            with open_to_read(self.place / LOCK) as file:
                return not _acquire(file)
        except OSError:
            return False

    def _write_json(self, name: str, value: Mapping[str, Any], what: str) -> None:
        write_atomically(self.place / name, (strict_json.dumps(value, indent=2) + "\n").encode(), what)

    def _read_json(self, name: str, mend: str = "") -> dict[str, Any] | None:
        try:
            value = strict_json.loads(read_file(self.place / name))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            mend = "" if isinstance(error, PermissionError) else mend  # the file may be whole
            raise UsageError(f"{self.path / name} cannot be read: {why}{mend}") from error
        if not isinstance(value, dict):
            raise UsageError(f"{self.path / name} is not a JSON object: it was not written by veldt{mend}")
        return value


def _runs_in(directory: Path) -> list[Path]:
    return sorted(path.parent for path in directory.glob(f"*/{CONFIG}"))


def _acquire(file: IO[str] | BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # Some cluster file systems have no locks. The lock only guards against mistakes: training continues
        # without it.
        return error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
    return True


def _read_pid(file: IO[str]) -> str:
    file.seek(0)
    return file.read().strip() or "(unknown)"
