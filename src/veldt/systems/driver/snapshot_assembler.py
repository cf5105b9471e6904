"""Collects the parts of a snapshot, which roles that have state send one after another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from veldt.systems.roles.messages import SnapshotPart, WrittenSegments

Segments = dict[str, Sequence[Mapping[str, Any]]]


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
