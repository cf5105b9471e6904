"""Requests snapshots from the roles, and writes a checkpoint of each beside training."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from veldt.errors import VeldtError
from veldt.exchange.graph import Groups
from veldt.learning.learner import check_finite
from veldt.replay.needed_segments import remove_unneeded
from veldt.runs.background_writer import BackgroundWriter
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runtime.supervision.interfaces import RunningRoles
from veldt.systems.roles.messages import SECOND_OPTIMISER, SECOND_WEIGHTS, SnapshotPart, WrittenSegments

Parts = Mapping[int, SnapshotPart]
Segments = dict[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class DriverState:
    """What the driver adds to the roles' parts: the run's agent steps, JSON values, and the score of its policy."""

    step: int
    meta: dict[str, Any]
    score: float | None


class Checkpointing:
    """One snapshot at a time: requested, assembled, captured with the driver's state, written.

    Args:
        roles: what runs the roles; those of the numbers `senders` have parts.
        join: joins groups of arrays that are parts of the same thing (`Graph.whole`).
        state: returns the driver's state that belongs to these parts.
        saved_step: step of the newest checkpoint on disk; None if there is none.
        on_saved: called in the writing thread with the step of a checkpoint that is on disk.
    """

    def __init__(
        self,
        roles: RunningRoles,
        senders: Iterable[int],
        join: Callable[[Groups], Groups],
        directory: RunDirectory,
        keep: int,
        state: Callable[[Parts], DriverState],
        saved_step: int | None,
        on_saved: Callable[[int], None],
    ) -> None:
        self._roles, self._join, self._state = roles, join, state
        self._parts, self._writer = SnapshotAssembler(senders), BackgroundWriter()
        self._directory = directory
        self._replay, self._store = directory.replay, CheckpointStore(directory.checkpoints, keep)
        self._captured: tuple[DriverState, Groups] | None = None
        self.saved_step, self._on_saved = saved_step, on_saved

    def request(self) -> None:
        """Requests a snapshot. One that is not being written yet is dropped."""
        self._captured = None
        self._parts.expect(self._roles.request_snapshot())

    def add(self, role: int, message: SnapshotPart | WrittenSegments) -> None:
        """Adds what a role has sent of the requested snapshot."""
        self._parts.add(role, message)

    def lost(self, role: int) -> None:
        """Requests the snapshot anew if this role, which is being restarted, has not sent all of its part."""
        if role in self._parts.missing:
            self.request()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is requested and nothing is being written: writing a checkpoint removes files that it does
        not name, even half-written ones of a later snapshot."""
        return not self._parts.is_expected and self._writer.is_done

    @property
    def is_requested(self) -> bool:
        return self._parts.is_expected

    @property
    def is_captured(self) -> bool:
        """Whether a captured snapshot waits for its rows, or for the write before it."""
        return self._captured is not None

    @property
    def is_whole(self) -> bool:
        """Whether everything has arrived."""
        return self._parts.is_whole

    @property
    def missing(self) -> frozenset[int]:
        """Roles that have not sent everything."""
        return self._parts.missing

    def advance(self) -> None:
        """Captures a snapshot that has all parts, and starts writing it when its rows are on disk. Raises the error of
        a failed write."""
        self._writer.check()
        if self._captured is None and self._parts.has_all_parts:
            self._captured = self._state(self._parts.parts), self.groups()
            self._roles.snapshot_done()
        if self._captured is not None and self._parts.is_whole and self._writer.is_done:
            (state, groups), self._captured = self._captured, None
            meta = state.meta | {"segments": dict(self._parts.segments)}
            self._parts.clear()
            self._writer.start(partial(self._write, state.step, groups, meta, state.score))

    def groups(self) -> Groups:
        """Returns the arrays of the parts, by group of the checkpoint."""
        groups: Groups = {}
        for part in self._parts.parts.values():
            groups |= part.groups
        return self._join(groups)

    def finish(self) -> None:
        """Waits for the end of the current write, and raises its error."""
        self._writer.finish()

    def finish_all(self) -> None:
        """As `finish`, and then writes the snapshot that has arrived meanwhile, if it is whole, to its end."""
        self._writer.finish()
        self.advance()
        self._writer.finish()

    def finish_after_failure(self, note: Callable[[str], None]) -> None:
        """Finishes writing what is on its way; a checkpoint that could not be written only leads to a note.

        Where not even that can be recorded, the failure itself says why.
        """
        try:
            self._writer.finish()
            if self._captured is not None:
                self.advance()
                self._writer.finish()
        except VeldtError as error:
            with contextlib.suppress(VeldtError):
                self._directory.check_in_place()
                note(f"a checkpoint was not written: {error}")

    def _write(self, step: int, groups: Groups, meta: dict[str, Any], score: float | None) -> None:
        try:
            check_finite(step, groups["weights"], groups["optimiser"])
            if SECOND_WEIGHTS in groups:  # no metric is of its updates
                second = groups[SECOND_WEIGHTS], groups[SECOND_OPTIMISER]
                check_finite(step, *second, "the second learner's ")
            self._directory.check_in_place()
            self._store.save(step, groups, meta, score=score)
            self.saved_step, self._directory.had_checkpoint = step, True
            self._on_saved(step)
        finally:  # also removes the files of a checkpoint that did not fit on the disk
            if self._replay.is_dir():
                remove_unneeded(self._replay, self._store.newest_meta())


class SnapshotAssembler:
    """Collects the parts of the expected snapshot from the roles of these numbers.

    A part of the replay buffer comes in two messages: its state, and the records of its rows when these are on disk.
    """

    def __init__(self, roles: Iterable[int]) -> None:
        self._roles = frozenset(roles)
        self._number: int | None = None
        self.parts: dict[int, SnapshotPart] = {}
        self.segments: Segments = {}

    def expect(self, number: int) -> None:
        """Expects all parts of snapshot `number`, and drops those of the one before."""
        self._number, self.parts, self.segments = number, {}, {}

    def add(self, role: int, message: SnapshotPart | WrittenSegments) -> None:
        """Adds what the role of this number has sent; ignores what belongs to an older snapshot."""
        if message.number != self._number:
            return
        if isinstance(message, SnapshotPart):
            self.parts[role] = message
        else:
            self.segments[message.replay] = message.segments

    @property
    def is_expected(self) -> bool:
        return self._number is not None

    @property
    def missing(self) -> frozenset[int]:
        """Roles that have not sent everything."""
        if not self.is_expected:
            return frozenset()
        writing = {
            role
            for role, part in self.parts.items()
            if part.replay is not None and part.replay not in self.segments
        }
        return (self._roles - self.parts.keys()) | writing

    @property
    def has_all_parts(self) -> bool:
        """Whether only rows are still being written, if anything."""
        return self.is_expected and self.parts.keys() >= self._roles

    @property
    def is_whole(self) -> bool:
        return self.is_expected and not self.missing

    def clear(self) -> None:
        """Expects nothing from now on."""
        self._number, self.parts, self.segments = None, {}, {}
