"""Records which user code this process is running, in memory that survives the process.

Code that ends its process (`os._exit`, a crash in a native library) leaves no chance to report that. The command
`veldt` therefore runs in a child of a process that only waits (`cli/guard`), and both share the memory with this
record; a role shares it with its supervisor. Without such a parent (the Python API, env processes), the memory is
private and not read. On Ray, a role's memory is read by the supervisor if both are on one machine
(`on_ray/host_record`).

The waiting process imports this file before anything else, and must stay small: only the child imports numpy.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mmap

    import numpy as np

    from veldt.errors import EnvError, NetworkError, PluginError

    Memory = mmap.mmap | memoryview  # shared memory, of bytes

SIZE = 1 << 22  # bytes; only pages that were written to take memory
SIZE_OF_ROLE = 1 << 16

# Values of `Record.episodes[1]` while an env is not in a step.
MAKING, RESETTING, CLOSING = -(1 << 62), -(1 << 62) + 1, -(1 << 62) + 2
_OUTSIDE_OF_STEPS = {MAKING: "when it was made", RESETTING: "in a reset", CLOSING: "when it was closed"}

# Offsets in words of 8 bytes. Header: 1 + the exit code with which the process ends itself, the offset of the
# innermost record, and the path of the run. Then the records, one after another.
_CHOSEN_END, _INNERMOST, _RUN, _RECORDS = 0, 1, 2, 514
# Offsets inside a record; see `Record`.
_PROGRESS, _BUSY, _WIDTH, _FIRST, _APART, _FINAL, _SUBJECT, _WHEN, _EPISODES = 0, 4, 5, 6, 7, 8, 9, 73, 137

_memory: Memory | None = None
_owner = 0
_open: list[Record] = []


@dataclass(frozen=True)
class Doing:
    """What a process was doing when it ended.

    Args:
        code: the user code that it ran, as the beginning of a sentence.
        place: where that code was, as the end of one.
        can_be_apart: whether the code could run in env processes instead.
        is_final: whether its end ends the run.
        suspect: the name of the code, without a number or seed, if no episode of it had ended in this process: then it
            may end every process that runs it. Else "".
        moment: the env, seed and step of an episode that it was in, which only the same episode comes to again. Else
            "".
    """

    code: str
    place: str
    can_be_apart: bool
    is_final: bool
    suspect: str
    moment: str = ""

    @property
    def what(self) -> str:
        """That the code ended its process, as the beginning of a sentence; worded as in `envs.failures.named`."""
        return f"{self.code} ended its process {self.place}"

    @property
    def ran(self) -> str:
        """Where its process was, if it may also have been ended by others: for `endings.how_it_ended`."""
        return f" while it ran {self.code}, {self.place}"


class Record:
    """A piece of user code while it is run: an environment, or several envs of it.

    The caller of that code writes `busy[0] = 1` before and 0 after each call, and before each step updates

    - `progress` int64 [4]: the env, its episode when one begins, the number of row steps, and a counter of other work;
    - `episodes` int64 [2, width]: the seed of each env's episode, and the number of row steps when it began (or MAKING,
      RESETTING, CLOSING). The number of row steps now, less that number, is the episode step.

    Args:
        subject: the name of the code, as the beginning of a sentence: "environment CartPole-v1".
        when: the purpose of the calls, as the end of that sentence, or "".
        width: number of envs.
        first: index in the run of the first env; None for an env without an index.
        can_be_apart, is_final: as in `Doing`.
    """

    def __init__(
        self,
        subject: str,
        when: str = "",
        width: int = 1,
        first: int | None = None,
        can_be_apart: bool = False,
        is_final: bool = True,
    ) -> None:
        import numpy as np

        self._subject, self._when = subject, when
        self.begin: int = _open[-1].end if _open else _RECORDS
        self.end: int = self.begin + _EPISODES + 2 * width
        self._is_shared = _memory is not None and 8 * self.end <= len(_memory)
        if self._is_shared:
            assert _memory is not None
            words = np.frombuffer(_memory, np.int64, self.end - self.begin, 8 * self.begin)
            words[:] = 0
            _write_text(self.begin + _SUBJECT, subject, _WHEN - _SUBJECT)
            _write_text(self.begin + _WHEN, when, _EPISODES - _WHEN)
        else:
            words = np.zeros(self.end - self.begin, np.int64)
        words[_WIDTH], words[_APART], words[_FINAL] = width, can_be_apart, is_final
        words[_FIRST] = -1 if first is None else first
        self.progress: np.ndarray = words[_PROGRESS:_BUSY]
        self.busy: np.ndarray = words[_BUSY:_WIDTH]
        self.episodes: np.ndarray = words[_EPISODES:].reshape(2, width)
        self.episodes[1] = MAKING
        if self._is_shared:
            _open.append(self)
            _write_word(_INNERMOST, self.begin)

    def resets(self, seed: int) -> None:
        """For an env without rows: records that an episode with this seed begins."""
        self.progress[3] += 1
        self.episodes[0, 0], self.episodes[1, 0] = seed, RESETTING

    def steps(self, before: int = 0) -> None:
        """For an env without rows: records that its steps begin; `progress[2]` counts from `before`."""
        self.episodes[1, 0], self.progress[2] = before - 1, before

    def closes(self) -> None:
        """For an env without rows: records that it is closed."""
        self.episodes[1, 0] = CLOSING

    def failure(self) -> str:
        """For an env without rows: returns the beginning of the sentence that it failed, with its seed and step."""
        began = int(self.episodes[1, 0])
        seeded = f" (seed {self.episodes[0, 0]})" if began != MAKING else ""
        return f"{self._subject}{seeded} failed {_place(began, int(self.progress[2]), self._when)}"

    def close(self) -> None:
        """Removes the record: its code is not run any more."""
        if self in _open:
            _open.remove(self)
            _write_word(_INNERMOST, _open[-1].begin if _open else 0)


@contextlib.contextmanager
def running(subject: str, when: str = "", can_be_apart: bool = False) -> Iterator[Record]:
    """Records that the block runs user code, and nothing else; see `Record`."""
    record = Record(subject, when, can_be_apart=can_be_apart)
    record.busy[0] = 1
    try:
        yield record
    finally:
        record.close()


@contextlib.contextmanager
def importing(kind: type[EnvError] | type[NetworkError] | type[PluginError], subject: str) -> Iterator[None]:
    """Says that the block imports user code, whatever that does: its exceptions become errors of this `kind`, and the
    end of its process is recorded. `subject` as for `Record`."""
    from veldt.errors import as_error  # not at the top: see the module's docstring

    with as_error(kind, f"{subject} could not be imported"), running(subject, "when it was imported"):
        yield


@contextlib.contextmanager
def training_in(run: str) -> Iterator[None]:
    """Records that the block trains in this run's directory."""
    if _memory is not None:
        _write_text(_RUN, run, _RECORDS - _RUN)
    try:
        yield
    finally:
        if _memory is not None:
            _write_text(_RUN, "", _RECORDS - _RUN)


def share(memory: Memory) -> None:
    """Makes this process write its records into `memory`, `SIZE` or `SIZE_OF_ROLE` bytes of 0, which its parent reads.

    A record that does not fit is not shared.
    """
    global _memory, _owner
    _memory, _owner = memory, os.getpid()


def ends_itself(code: int) -> None:
    """Records that this process is about to end with the exit code `code`, and has reported the reason."""
    if _memory is not None and os.getpid() == _owner:  # not in a process that user code has forked
        _write_word(_CHOSEN_END, 1 + code)


def chosen_end(memory: Memory) -> int | None:
    """Returns the exit code that the process recorded by `ends_itself`, or None."""
    code = _words(memory)[_CHOSEN_END] - 1
    return code if code >= 0 else None


def run_of(memory: Memory) -> str:
    """Returns the directory of the run that the process trained, or ""."""
    return _text(memory, _RUN)


def last(memory: Memory) -> Doing | None:
    """Returns which user code the process was running at its end; None if it was running none."""
    begin = _words(memory)[_INNERMOST]
    words = _words(memory)[begin:]
    if not begin or not words[_BUSY]:
        return None
    b, _, steps, resets = words[:_BUSY]
    seed, began = words[_EPISODES + b], words[_EPISODES + words[_WIDTH] + b]
    number = f", env {words[_FIRST] + b}" if words[_FIRST] >= 0 else ""
    seeded = f" (seed {seed})" if words[_FIRST] >= 0 or (began != MAKING and resets) else ""
    subject = _text(memory, begin + _SUBJECT)
    place = _place(began, steps, _text(memory, begin + _WHEN))
    # The first episode begins before the first row; one that is replayed, before that.
    has_ended_one = (steps if began in _OUTSIDE_OF_STEPS else began) > 0
    suspect = "" if has_ended_one else subject
    code = f"{subject}{number}{seeded}"
    moment = f"{code}, {place}" if seeded and began not in _OUTSIDE_OF_STEPS else ""
    return Doing(code, place, bool(words[_APART]), bool(words[_FINAL]), suspect, moment)


def _place(began: int, steps: int, when: str) -> str:
    """Returns where an env is, by its `episodes[1]` (`began`) and the number of row steps, and for what purpose."""
    if when and began == MAKING:
        return when
    return f"{_OUTSIDE_OF_STEPS.get(began, f'in step {steps - began - 1}')} {when}".rstrip()


def _words(memory: Memory) -> memoryview:
    return memoryview(memory).cast("q")


def _write_word(at: int, value: int) -> None:
    assert _memory is not None
    _words(_memory)[at] = value


def _write_text(at: int, text: str, words: int) -> None:
    """Writes a text into `words` words: its length in bytes, then as many of its bytes as fit."""
    assert _memory is not None
    data = text.encode(errors="replace")[: 8 * (words - 1)]
    _write_word(at, len(data))
    memoryview(_memory)[8 * (at + 1) : 8 * (at + 1) + len(data)] = data


def _text(memory: Memory, at: int) -> str:
    begin = 8 * (at + 1)
    return bytes(memoryview(memory)[begin : begin + _words(memory)[at]]).decode(errors="replace")
