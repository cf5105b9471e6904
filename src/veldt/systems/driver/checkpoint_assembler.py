"""The parts of a snapshot, as the roles that have state say them one after another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from veldt.runtime.supervision import RoleMessage


class CheckpointAssembler:
    """Of the snapshot that is expected, from the roles of these numbers."""

    def __init__(self, roles: Iterable[int]) -> None:
        self._roles = frozenset(roles)
        self._number: int | None = None
        self._parts: dict[int, RoleMessage] = {}

    def expect(self, number: int) -> None:
        """All parts of snapshot `number`; those of the one before are not wanted any more."""
        self._number, self._parts = number, {}

    def add(self, part: RoleMessage) -> None:
        """Takes a part; one of an older snapshot is left out."""
        if part.values["number"] == self._number:
            self._parts[part.role] = part

    @property
    def is_expected(self) -> bool:
        return self._number is not None

    @property
    def missing(self) -> frozenset[int]:
        """Roles whose parts are still to come."""
        return self._roles - self._parts.keys() if self.is_expected else frozenset()

    @property
    def is_whole(self) -> bool:
        return self.is_expected and not self.missing

    @property
    def parts(self) -> Mapping[int, RoleMessage]:
        return self._parts

    def take(self) -> Mapping[int, RoleMessage]:
        """The parts of a snapshot that is whole; none is expected from then on."""
        assert self.is_whole
        parts, self._number, self._parts = self._parts, None, {}
        return parts
