"""A directory in which one command at a time works, and which is continued with what was asked of it first."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from veldt.errors import UsageError
from veldt.runs import strict_json
from veldt.runs.files import explained, read_file, write_atomically
from veldt.runs.own_files import open_in_place
from veldt.setting_text import in_sentence

AGAIN = "give the same command again (what is done is kept)"  # what to do when there is room on the disk
_LOCK = "lock"


class OwnDirectory:
    """The directory `root` of a command.

    Args:
        verb: of the command.
        noun: what the command makes there, with the file `<noun>.json` of what was asked.
        asked: JSON values by name; a value may be an object of further values.
        name_in_messages: returns how messages call a value of `asked`: by its name, or by `name.inner name`.
        before: names of files that may be there before the command has begun.
        may_grow: names of whole numbers in `asked` that may be larger later, and of objects that may have more in them.
    """

    def __init__(
        self,
        root: Path,
        verb: str,
        noun: str,
        asked: Mapping[str, Any],
        name_in_messages: Callable[[str], str],
        before: Collection[str] = (),
        may_grow: Collection[str] = (),
    ) -> None:
        self.root, self._verb, self._noun, self._asked = root, verb, noun, asked
        self._name_in_messages, self._before = name_in_messages, {_LOCK, *before}
        self._may_grow, self._has_grown = frozenset(may_grow), False
        self._path = root / f"{noun}.json"
        self._made: list[Path] = []

    def open(self) -> None:
        """Makes the directory, or continues one, and locks it until this process ends.

        Raises:
            UsageError: something else was asked of it, it has files of the user's, or another process works in it.
        """
        with explained(f"the directory of the {self._noun}", self.root, AGAIN):
            if self.root.exists() and not self.root.is_dir():
                raise UsageError(f"--out {self.root} is a file: name a new directory")
            self._made = [path for path in (self.root, *self.root.parents) if not path.exists()]
            self.root.mkdir(parents=True, exist_ok=True)
        if not self._path.exists() and (
            foreign := sorted({p.name for p in self.root.iterdir()} - self._before)
        ):
            raise UsageError(
                f"--out {self.root} has files ({foreign[0]}) and is no {self._noun}: name a new directory for this one"
            )
        with explained("the lock", self.root / _LOCK, AGAIN):
            self._lock = os.fdopen(open_in_place(self.root / _LOCK, os.O_WRONLY), "w")
        try:
            self._take_lock()
            if self._path.exists():
                self._check_asked()
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another veldt {self._verb} works in {self.root}: wait for it, or name another directory by --out"
            ) from None

    def close(self) -> None:
        """Unlocks the directory."""
        self._lock.close()

    def discard_unless_begun(self) -> None:
        """Removes the directory again, if `open` has made it and nothing was asked of it yet."""
        if self._made and not self._path.exists():
            for name in self._before:
                (self.root / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # somebody else has put something there
                for path in self._made:
                    path.rmdir()

    def begin(self) -> None:
        """Notes what is asked, with which alone the directory can be continued from now on."""
        if not self._path.exists() or self._has_grown:
            asked = strict_json.dumps(self._asked, indent=1).encode()
            write_atomically(self._path, asked, f"the settings of the {self._noun}", AGAIN)

    def read_json(self, path: Path) -> dict[str, Any]:
        """Returns the JSON object in a file of this directory. UsageError if it holds none, or cannot be read."""
        try:
            value = strict_json.loads(read_file(path))
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read ({error.strerror}): remove it, or name another directory by --out"
            ) from error
        except ValueError as error:
            raise UsageError(
                f"{path} is damaged ({error}): remove it, or name another directory by --out"
            ) from None
        if not isinstance(value, dict):
            raise UsageError(
                f"{path} is damaged (not a JSON object): remove it, or name another directory by --out"
            )
        return value

    def _check_asked(self) -> None:
        before, now = _flat(self.read_json(self._path)), _flat(self._asked)
        for name in now | before:
            if self._may_become(name, now, before):
                self._has_grown = True
            elif before.get(name) != now.get(name):
                what = self._name_in_messages(name)
                is_without = before.get(name) in (None, [])
                made = f"without {what}" if is_without else f"with {what} {in_sentence(before[name])}"
                raise UsageError(
                    f"{self.root} was made {made}, and {in_sentence(now.get(name))} is asked now: "
                    "continue it with the same, or name another directory by --out"
                )

    def _may_become(self, name: str, now: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
        """Returns whether the value `name` is more than it was: a larger number, or a new one in an object."""
        outer = name.partition(".")[0]
        is_new = name != outer and name not in before
        return outer in self._may_grow and (is_new or _is_larger(now.get(name), before.get(name)))


def _flat(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values by name, and those of an object in it by `name.inner name`, as JSON has them."""
    values: dict[str, Any] = {}
    for name, value in strict_json.loads(strict_json.dumps(asked)).items():
        inner = {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else None
        values |= {name: value} if inner is None else inner
    return values


def _is_larger(now: Any, before: Any) -> bool:
    return isinstance(now, int) and isinstance(before, int) and now > before
