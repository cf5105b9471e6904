"""Collects the parts of a snapshot, which roles that have state send one after another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from veldt.systems.roles.messages import SnapshotPart


class CheckpointAssembler:
    """Collects the parts of the expected snapshot from the roles of these numbers."""

    def __init__(self, roles: Iterable[int]) -> None:
        self._roles = frozenset(roles)
        self._number: int | None = None
        self._parts: dict[int, SnapshotPart] = {}

    def expect(self, number: int) -> None:
        """Expects all parts of snapshot `number`, and drops those of the one before."""
        self._number, self._parts = number, {}

    def add(self, role: int, part: SnapshotPart) -> None:
        """Adds the part of the role of this number; ignores one of an older snapshot."""
        if part.number == self._number:
            self._parts[role] = part

    @property
    def is_expected(self) -> bool:
        return self._number is not None

    @property
    def missing(self) -> frozenset[int]:
        """Roles whose parts have not arrived."""
        return self._roles - self._parts.keys() if self.is_expected else frozenset()

    @property
    def is_whole(self) -> bool:
        return self.is_expected and not self.missing

    @property
    def parts(self) -> Mapping[int, SnapshotPart]:
        return self._parts

    def take(self) -> Mapping[int, SnapshotPart]:
        """Returns the parts of a complete snapshot; none is expected afterwards."""
        assert self.is_whole
        parts, self._number, self._parts = self._parts, None, {}
        return parts
