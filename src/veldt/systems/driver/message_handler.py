"""What the driver does with each message of a role."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from veldt.errors import VeldtError
from veldt.exchange.graph import Role
from veldt.exchange.rate_limiter import RateLimiter
from veldt.runtime.role_messages import (
    Ended,
    Failed,
    FailedAtEnd,
    Note,
    Received,
    Restarted,
    RoleMessage,
    Started,
)
from veldt.systems.driver.checkpointing import Checkpointing
from veldt.systems.driver.episode_recorder import EpisodeRecorder
from veldt.systems.driver.evaluating import Evaluating
from veldt.systems.driver.monitor import Monitor
from veldt.systems.driver.role_metrics import RoleMetrics
from veldt.systems.roles.messages import (
    ActorMetrics,
    CurrentWeights,
    FinishedEpisodes,
    FinishedEvaluation,
    LearnerMetrics,
    SnapshotPart,
    WrittenSegments,
)


class MessageHandler:
    """Passes the content of messages to the records, the metrics and the checkpoint that they belong to.

    Args:
        roles: role and index of each process, by number.
        incarnations: starts of each process by its name; counted on here.
    """

    def __init__(
        self,
        roles: Sequence[tuple[Role, int]],
        incarnations: dict[str, int],
        rate_limiter: RateLimiter,
        monitor: Monitor,
        metrics: RoleMetrics,
        episodes: EpisodeRecorder,
        evaluating: Evaluating,
        checkpointing: Checkpointing,
    ) -> None:
        self._incarnations, self._rate_limiter = incarnations, rate_limiter
        self._names = [role.named(index) for role, index in roles]
        self._resumes_from = [role.resumes_from for role, _ in roles]
        self._monitor, self._metrics, self._episodes = monitor, metrics, episodes
        self._evaluating, self._checkpointing = evaluating, checkpointing
        self._weights: CurrentWeights | None = None
        self.last_restart: Restarted | None = None  # of a role that had reported an error

    def handle(self, messages: Sequence[Received]) -> None:
        """Handles messages in the order in which they came; counts the steps made until then."""
        self._monitor.count_steps(self._rate_limiter.steps - self._monitor.steps)
        for (role, about), several in groupby(messages, _source_of_notes):
            if about is None:
                for received in several:
                    self._handle_one(role, received.message)
            else:
                texts = [one.message.text for one in several if isinstance(one.message, Note)]
                self._monitor.notes(texts, about)

    def take_weights(self) -> CurrentWeights:
        """Returns the weights that came with the last messages."""
        weights, self._weights = self._weights, None
        assert weights is not None, "a role that is alone sends its weights when it is asked for them"
        return weights

    def _handle_one(self, role: int, message: RoleMessage) -> None:
        match message:
            case FinishedEpisodes():
                self._episodes.record(message)
            case ActorMetrics():
                self._metrics.actor(role, message)
                self._monitor.count_resets(self._metrics.new_reset_steps(), self._metrics.env_restarts)
            case LearnerMetrics():
                self._metrics.learner(role, message)
                self._monitor.record_updates(message)
                self._monitor.check_finite()
            case FinishedEvaluation():
                self._evaluating.record(message)
            case SnapshotPart() | WrittenSegments():
                self._checkpointing.add(role, message)
            case CurrentWeights():
                self._weights = message
            case Restarted():
                self._record_restart(role, message)
            case Started() | Ended() | Failed() | FailedAtEnd():
                pass  # supervision has handled it, and the end is the same
            case _:
                raise VeldtError(
                    f"the {self._names[role]} sent a message of kind '{message.kind}', which no driver handles: send "
                    "one of those in veldt.systems.roles.messages"
                )

    def _record_restart(self, role: int, message: Restarted) -> None:
        name = self._names[role]
        self._incarnations[name] += 1
        self._metrics.role_restarts += 1
        if message.details:
            self.last_restart = message
        text = f"the {name} {message.why}, and was started again"
        if resumes_from := self._resumes_from[role]:
            text += f" from {resumes_from.format(step=self._checkpointing.saved_step or 0)}"
        self._monitor.note(text, "restart")
        self._checkpointing.lost(role)


def _source_of_notes(received: Received) -> tuple[int, str | None]:
    """Returns the role and what its note is about; None for other messages."""
    message = received.message
    return received.role, message.about if isinstance(message, Note) else None
