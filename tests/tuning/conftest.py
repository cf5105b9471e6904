"""A search whose trials are stand-ins."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_searches import HOW, SMALL, SPACE, Stands

from veldt.tuning import run as tuning
from veldt.tuning import search as searching


def touch(path: Path, _: None) -> None:
    path.touch()


@pytest.fixture
def stands(stands_with_page: Stands, monkeypatch: pytest.MonkeyPatch) -> Stands:
    """As `stands_with_page`, but the page is empty, because its figures take the longest."""
    monkeypatch.setattr(tuning, "_page", lambda *_: None)
    monkeypatch.setattr(tuning, "write_page", touch)
    return stands_with_page


@pytest.fixture
def stands_with_page(monkeypatch: pytest.MonkeyPatch) -> Stands:
    """A search whose trials are stand-ins."""
    HOW.clear()
    monkeypatch.setattr(searching, "_POLL_S", 0.02)
    return Stands(recipe="ppo", env="CartPole-v1", settings=SMALL, space=SPACE)
