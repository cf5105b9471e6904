"""What a request to stop changes for code that a watchdog watches: code that hangs is left, slow code is not."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from veldt.runtime import watchdog
from veldt.runtime.watchdog import ask_to_stop, leave_if_asked, time_to_close, within

ASKED_S = 0.3


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(watchdog, "_ASKED_S", ASKED_S)
    monkeypatch.setattr(watchdog, "_INTERVAL", 0.02)
    yield
    ask_to_stop(False)


class Steps:
    """Counts the steps that were made."""

    def __init__(self) -> None:
        self.made = 0

    def step(self, seconds: float) -> None:
        time.sleep(seconds)
        self.made += 1


def test_code_that_hangs_is_left_soon_after_a_request() -> None:
    steps = Steps()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt), within(20.0, lambda: steps.made, str):
        steps.step(0.05)
        ask_to_stop(True)
        steps.step(20.0)
    assert time.monotonic() - begin < 10.0


def test_code_that_was_as_slow_before_is_awaited() -> None:
    steps = Steps()
    with within(20.0, lambda: steps.made, str):
        steps.step(3 * ASKED_S)
        ask_to_stop(True)
        steps.step(4 * ASKED_S)
    assert steps.made == 2


def test_without_a_request_the_deadline_holds() -> None:
    with pytest.raises(TimeoutError, match="no answer within 1 s"), within(1.0, lambda: 0, str):
        time.sleep(20.0)


def test_environments_have_their_time_to_close_after_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a close that hangs would cost the checkpoint that is written after it."""
    monkeypatch.setattr(watchdog, "_CLOSE_S", 3 * ASKED_S)
    ask_to_stop(True)
    time.sleep(2 * ASKED_S)
    with time_to_close("environment X"):
        time.sleep(20.0)


def test_a_wait_for_another_process_is_left_as_early() -> None:
    ask_to_stop(True)
    leave_if_asked(20.0, 0.0)  # it was silent before the request, too
    time.sleep(1.5 * ASKED_S)
    leave_if_asked(0.5 * ASKED_S, 0.0)
    leave_if_asked(20.0, 15.0)
    with pytest.raises(KeyboardInterrupt):
        leave_if_asked(2 * ASKED_S, 0.0)
