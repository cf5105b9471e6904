"""What the driver does with messages, without any role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from veldt.errors import VeldtError
from veldt.exchange.graph import Role
from veldt.exchange.rate_limiter import RateLimiter, RateLimiterSpec
from veldt.recipes import find
from veldt.recipes.overrides import with_settings
from veldt.runtime.role_messages import Note, Received, RoleMessage
from veldt.sampling.episodes import Episode, ReturnTracker
from veldt.systems.driver.episode_recorder import EpisodeRecorder
from veldt.systems.driver.message_handler import MessageHandler
from veldt.systems.roles.messages import FinishedEpisodes


@dataclass(frozen=True)
class Unhandled(RoleMessage, kind="unhandled"):
    pass


class Recorder:
    """A monitor that keeps its notes."""

    steps = 0

    def __init__(self) -> None:
        self.said: list[tuple[list[str], str]] = []
        self.episodes: list[tuple[int, bool]] = []

    def count_steps(self, steps: int) -> None:
        self.steps += steps

    def notes(self, texts: list[str], about: str) -> None:
        self.said.append((texts, about))

    def record_episode(self, episode: Episode, seed: int, counts: bool) -> None:
        self.episodes.append((episode.env_index, counts))


def handler(
    monitor: Any, recipe: str = "ppo", scored_envs: range = range(2), **settings: Any
) -> tuple[MessageHandler, RateLimiter, ReturnTracker]:
    nothing: Any = None
    rate_limiter = RateLimiter(RateLimiterSpec.free(2, 1, 1), context=None)
    roles = [(Role("actor", "", print, [None] * 2, [{}] * 2, 0, 1.0), index) for index in (0, 1)]
    scores = ReturnTracker()
    config = with_settings(find(recipe).config("CartPole-v1"), settings)
    handles = MessageHandler(
        roles,
        {},
        rate_limiter,
        monitor,
        nothing,
        EpisodeRecorder(config, scored_envs, scores, monitor),
        nothing,
        nothing,
    )
    return handles, rate_limiter, scores


def test_notes_of_one_role_about_one_subject_are_shown_together() -> None:
    """So that a process that was replaced does not fill the screen with a line for each of its envs."""
    monitor = Recorder()
    handles, rate_limiter, _ = handler(monitor)
    rate_limiter.steps_A[:] = 3, 4
    said = [(0, "a", "restart"), (0, "b", "restart"), (1, "c", "restart"), (1, "d", "tuner")]
    handles.handle([Received(role, Note(text, about)) for role, text, about in said])
    assert monitor.said == [(["a", "b"], "restart"), (["c"], "restart"), (["d"], "tuner")]
    assert monitor.steps == 7


def test_an_unknown_kind_of_message_is_an_error_of_one_sentence() -> None:
    handles, _, _ = handler(Recorder())
    with pytest.raises(
        VeldtError, match="the actor 1 sent a message of kind 'unhandled', which no driver handles"
    ):
        handles.handle([Received(1, Unhandled())])


@pytest.mark.parametrize(("share", "counted"), [(0.1, [False, False, True]), (0.0, [False, True, True])])
def test_the_log_of_episodes_says_which_count(share: float, counted: list[bool]) -> None:
    monitor = Recorder()
    handles, _, scores = handler(
        monitor, "apex-dqn", range(8, 16), num_envs=16, actors=2, evaluator_share=share
    )
    episodes = [Episode(env, 0, 0, 1.0, np.zeros(3, np.uint8)) for env in (0, 9, 16)]
    handles.handle([Received(0, FinishedEpisodes(episodes, [1, 2, 3]))])
    assert monitor.episodes == list(zip((0, 9, 16), counted, strict=True))
    assert scores.num_episodes == sum(counted)
