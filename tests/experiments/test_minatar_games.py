"""MinAtar's games as environments: what making one does to the program around it."""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import Any

import pytest

from veldt.experiments.minatar_games import breakout


class _Game:
    """As `minatar.Environment`, of which no game is played here."""

    def __init__(self, name: str) -> None:
        self.name = name

    def state_shape(self) -> tuple[int, int, int]:
        return 10, 10, 4

    def num_actions(self) -> int:
        return 6


@pytest.mark.parametrize("is_installed", [True, False])
@pytest.mark.parametrize("level", [logging.NOTSET, logging.CRITICAL])
def test_logging_is_as_the_program_has_set_it(
    is_installed: bool, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = ModuleType("minatar")
    module.Environment = _Game
    monkeypatch.setitem(sys.modules, "minatar", module if is_installed else None)
    logging.disable(level)
    try:
        if is_installed:
            assert breakout().observation_space.shape == (4, 10, 10)
        else:
            with pytest.raises(ImportError):
                breakout()
        assert logging.root.manager.disable == level
    finally:
        logging.disable(logging.NOTSET)
