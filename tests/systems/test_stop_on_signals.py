"""How a run is asked to stop: by a signal, by several at once, and by one that comes while another is handled."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from veldt.systems.driver import outcome
from veldt.systems.driver.outcome import stop_on_signals


def test_signals_that_come_together_are_one_request() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals("") as stop:
        assert not stop.is_set()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.raise_signal(number)
        assert stop.is_set()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_after_a_second_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "_AT_ONCE_AFTER", 0.01)
    with stop_on_signals(""):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.02)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_signal_that_interrupts_the_handler_is_no_second_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closing terminal sends several signals at once: the handler of one may be interrupted by that of another."""

    class Interrupted(threading.Event):
        """An event during whose setting another signal arrives."""

        def set(self) -> None:
            super().set()
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.001)

    monkeypatch.setattr(outcome.threading, "Event", Interrupted)
    with stop_on_signals("") as stop:
        monkeypatch.undo()
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            pytest.fail("it counted as a request to stop at once")
        assert stop.is_set()
