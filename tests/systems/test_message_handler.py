"""What the driver does with messages, without any role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from veldt.errors import VeldtError
from veldt.exchange.graph import Role
from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec
from veldt.recipes import find
from veldt.runtime.role_messages import Note, Received, RoleMessage
from veldt.sampling.episodes import ReturnTracker
from veldt.systems.driver.message_handler import MessageHandler


@dataclass(frozen=True)
class Unhandled(RoleMessage, kind="unhandled"):
    pass


class Recorder:
    """A monitor that keeps its notes."""

    steps = 0

    def __init__(self) -> None:
        self.said: list[tuple[list[str], str]] = []

    def count_steps(self, steps: int) -> None:
        self.steps += steps

    def notes(self, texts: list[str], about: str) -> None:
        self.said.append((texts, about))


def handler(monitor: Any) -> tuple[MessageHandler, RateLimiter]:
    nothing: Any = None
    rate_limiter = RateLimiter(RateLimiterSpec.free(2, 1, 1), context=None)
    roles = [(Role("actor", "", print, [None] * 2, [{}] * 2, 0, 1.0), index) for index in (0, 1)]
    handles = MessageHandler(
        find("ppo").config("CartPole-v1"),
        roles,
        {},
        rate_limiter,
        monitor,
        nothing,
        ReturnTracker(),
        range(2),
        nothing,
        nothing,
    )
    return handles, rate_limiter


def test_notes_of_one_role_about_one_subject_are_shown_together() -> None:
    """So that a process that was replaced does not fill the screen with a line for each of its envs."""
    monitor = Recorder()
    handles, rate_limiter = handler(monitor)
    rate_limiter.steps_A[:] = 3, 4
    said = [(0, "a", "restart"), (0, "b", "restart"), (1, "c", "restart"), (1, "d", "tuner")]
    handles.handle([Received(role, Note(text, about)) for role, text, about in said])
    assert monitor.said == [(["a", "b"], "restart"), (["c"], "restart"), (["d"], "tuner")]
    assert monitor.steps == 7


def test_an_unknown_kind_of_message_is_an_error_of_one_sentence() -> None:
    handles, _ = handler(Recorder())
    with pytest.raises(
        VeldtError, match="the actor 1 sent a message of kind 'unhandled', which no driver handles"
    ):
        handles.handle([Received(1, Unhandled())])
