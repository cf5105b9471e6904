"""Runs in tests need not survive a power cut."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.fsync` would be most of the time that tests with many checkpoints take."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
