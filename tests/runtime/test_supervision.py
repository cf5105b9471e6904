"""What a supervisor decides about roles whose messages and deaths are simulated."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from veldt.errors import RoleError
from veldt.runtime.activity import Doing
from veldt.runtime.messages import pack
from veldt.runtime.role_messages import Failed, FailedAtEnd, Note, Restarted, Started
from veldt.runtime.supervision import decisions
from veldt.runtime.supervision.decisions import SupervisedRole, Supervision
from veldt.runtime.supervision.plans import RolePlan
from veldt.runtime.supervision.recurrence import CALM_S, Recurrence


class Played:
    """An incarnation of a role that sends the given messages."""

    def __init__(self, says: Sequence[bytes] = (), *, alive: bool = True, doing: Doing | None = None) -> None:
        self.says, self.is_alive, self.heartbeats, self.waits = list(says), alive, 0, False
        self.is_stopped, self.doing = False, doing

    def received(self) -> list[bytes]:
        says, self.says = self.says, []
        return says

    def alive(self) -> bool:
        return self.is_alive

    def failure(self) -> Failed | None:
        return None

    def user_code(self) -> Doing | None:
        return self.doing

    def cause_of_death(self) -> str:
        return "died"

    def stack(self, trace: int) -> str:
        return ""

    def kill(self) -> None:
        self.is_alive = False


class Plays(Supervision):
    def __init__(self, plans: Sequence[RolePlan], lives: Sequence[Played]) -> None:
        super().__init__(plans)
        self.lives = lives
        self.start()

    def start_incarnation(self, role: SupervisedRole) -> Played:
        return self.lives[role.number]

    def wait(self, patience_s: float) -> None:
        pass

    def broadcast(self, *, stopping: bool, snapshot: int) -> None:
        pass


def plan(
    name: str, *, max_restarts: int = 3, deadline_s: float = 30.0, group: str = "", given: bool = False
) -> RolePlan:
    return RolePlan(name, print, (), max_restarts, deadline_s, group=group, is_limit_given=given)


def failed(error: str, *, is_final: bool, is_echo: bool = False) -> bytes:
    return Failed(error, "", is_final, is_echo).to_bytes()


def test_messages_sent_before_a_final_failure_are_returned_by_the_next_poll() -> None:
    part = Note("its part").to_bytes()
    plays = Plays([plan("learner"), plan("actor", max_restarts=0)], [Played([part]), Played(alive=False)])
    with pytest.raises(RoleError, match="the actor died"):
        plays.poll(0.0)
    plays.stopping = True
    assert [one.message for one in plays.poll(0.0)] == [Note("its part")]


def test_the_error_names_the_role_that_died_and_not_the_peer_that_lost_it() -> None:
    plans = [plan(f"learner {rank}", max_restarts=0, group="learner") for rank in range(2)]
    misses = Played([failed("PeerLost: closed by peer", is_final=False, is_echo=True)], alive=False)
    plays = Plays(plans, [misses, Played(alive=True)])
    plays.poll(0.0)  # the other does not count as dead yet
    plays.lives[1].is_alive = False
    with pytest.raises(RoleError, match="the learner 1 died") as caught:
        plays.poll(0.0)
    assert not caught.value.is_final


def test_a_role_that_lost_a_peer_is_named_if_all_peers_are_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "_ECHO_S", 0.0)
    plans = [plan(f"learner {rank}", max_restarts=0, group="learner") for rank in range(2)]
    misses = Played([failed("PeerLost: in vain", is_final=False, is_echo=True)], alive=False)
    with pytest.raises(RoleError, match="the learner 0 failed \\(PeerLost: in vain\\)"):
        Plays(plans, [misses, Played(alive=True)]).poll(0.0)


@pytest.mark.parametrize("restarts", [0, 3])
def test_the_error_of_a_group_names_the_role_with_the_final_failure(restarts: int) -> None:
    plans = [plan(f"learner {rank}", max_restarts=restarts, group="learner") for rank in range(2)]
    misses = Played([failed("RuntimeError: Connection closed by peer", is_final=False)], alive=False)
    plays = Plays(plans, [misses, Played(alive=True)])
    plays.lives[1].says.append(failed("training has diverged", is_final=True))
    with pytest.raises(RoleError, match=r"the learner 1 failed \(training has diverged\)"):
        plays.poll(0.0)


def test_a_role_that_fails_at_every_start_is_not_restarted_for_ever() -> None:
    plays = Plays([plan("actor", max_restarts=100)], [Played(alive=False)])
    with pytest.raises(RoleError) as ended:
        for _ in range(200):
            plays.poll(0.0)
            time.sleep(0.01)
    assert str(ended.value) == (
        "the actor died once more, after 2 restarts (3 starts in a row have failed; --max-restarts, where you give it, "
        "is the only limit, here 100 by default)"
    )


def test_an_error_that_differs_only_in_seed_and_step_is_the_same_error() -> None:
    plays = Plays([plan("actor", max_restarts=100)], [Played()])
    said = r"the actor failed \(the env with seed 3 came to step 30\) once more, after 2 restarts \(the same error"
    with pytest.raises(RoleError, match=said):
        for seed in range(1, 9):
            error = f"the env with seed {seed} came to step {10 * seed}"
            plays.lives[0].says += [Started(-1, 1).to_bytes(), failed(error, is_final=False)]
            plays.lives[0].is_alive = False
            plays.poll(0.0)
            plays.roles[0].due = 0.0  # without the pause
            plays.poll(0.0)


def test_a_role_that_waits_long_for_its_process_has_only_just_begun() -> None:
    plays = Plays([plan("actor")], [Played()])
    plays.roles[0].began -= 1000.0
    plays.lives[0].says.append(Started(-1, 1).to_bytes())
    plays.poll(0.0)
    assert time.monotonic() - plays.roles[0].began < 100.0


def test_a_given_limit_is_the_only_one_for_starts_that_fail() -> None:
    plays = Plays([plan("actor", max_restarts=5, given=True)], [Played(alive=False)])
    said = r"the actor died once more, after 5 restarts \(--max-restarts is 5, and a larger one allows more\)"
    with pytest.raises(RoleError, match=said) as ended:
        for _ in range(20):
            plays.poll(0.0)
            plays.roles[0].due = 0.0  # without the pause
    assert not ended.value.is_final


def test_roles_that_die_while_the_run_stops_are_not_restarted() -> None:
    plays = Plays([plan("actor")], [Played(alive=False)])
    assert [one.message for one in plays.stop(1.0)] == [FailedAtEnd("actor", "died", "")]
    assert plays.all_ended


def test_a_pause_of_all_processes_does_not_count_as_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    plays = Plays([plan("actor")], [Played()])
    assert plays.poll(0.0) == []
    now[0] += 300.0  # the whole family, by the terminal or the machine
    assert plays.poll(0.0) == []
    messages = []
    for _ in range(31):
        now[0] += 1.0
        messages += plays.poll(0.0)
    assert [type(one.message) for one in messages] == [Restarted], "that one is hung"


def test_a_role_that_is_stopped_alone_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was stopped with this process (Ctrl-Z) and is continued with it is not."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    plays = Plays([plan("learner", deadline_s=120.0)], [Played()])
    plays.lives[0].is_stopped = True
    now[0] += 300.0
    assert plays.poll(0.0) == []
    plays.lives[0].is_stopped = False
    assert plays.poll(0.0) == []
    plays.lives[0].is_stopped = True
    (lost,) = [one.message for _ in range(10) for one in (now.append(now.pop() + 1.0), plays.poll(0.0))[1]]
    assert isinstance(lost, Restarted) and lost.why.startswith("was stopped for 8 s (SIGSTOP")


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            {"kind": "letter", "values": {}},
            "the actor sent a message of the unknown kind 'letter': known are .*note",
        ),
        (
            {"kind": "note", "values": {"about": "it"}},
            "'note' without its field 'text': its fields are text, about",
        ),
        ({"kind": "note", "values": {"text": "", "by": 1}}, "'note' with the unknown field 'by'"),
    ],
)
def test_an_unreadable_message_ends_the_run(message: dict[str, Any], sentence: str) -> None:
    """No other message of the same poll is lost."""
    plays = Plays([plan("actor")], [Played([pack(message), Note("after it").to_bytes()])])
    with pytest.raises(RoleError, match=sentence) as caught:
        plays.poll(0.0)
    assert caught.value.is_final
    assert [one.message for one in plays.poll(0.0)] == [Note("after it")]


def failures_until_the_end(
    errors: Sequence[str], deaths: Sequence[Doing | None] = (), *, given: bool = False
) -> int:
    """Returns which failure of an actor ends the run, where each start succeeds; more than all if none does.

    With `deaths`, it dies without an error in this code.
    """
    started = Started(0, 0).to_bytes()
    lives = [Played([started, failed(error, is_final=False)], alive=False) for error in errors]
    lives += [Played([started], alive=False, doing=doing) for doing in deaths]
    plays = Plays([plan("actor", max_restarts=100, given=given)], lives)
    for number, (life, said) in enumerate(zip(lives, [*errors, *["died"] * len(deaths)], strict=True)):
        if number:
            plays.lives, plays.roles[0].due = [life], 0.0
            plays.poll(0.0)  # starts it
        try:
            plays.poll(0.0)
        except RoleError as final:
            assert final.is_final and said in str(final)
            return number + 1
    return len(lives) + 1


def test_the_same_error_three_times_in_a_row_ends_the_run() -> None:
    """Another start would fail, too; errors that differ may be accidents."""
    assert failures_until_the_end(["KeyError: 'a'"] * 10) == 3
    assert failures_until_the_end([f"KeyError: {number % 2}" for number in range(10)]) == 11
    assert failures_until_the_end(["KeyError: 'a'"] * 10, given=True) == 11


def in_step(step: int, *, first_episode: bool = False) -> Doing:
    code, place = "environment a, env 1 (seed 5)", f"in step {step}"
    return Doing(code, place, True, False, "environment a" if first_episode else "", f"{code}, {place}")


def test_deaths_in_first_episodes_of_an_environment_count_as_the_same_error() -> None:
    """Deaths after an episode had ended are those of a role that works, and that something else kills now and then."""
    first = [in_step(step, first_episode=True) for step in range(10)]
    later = [in_step(step) for step in range(10)]
    assert failures_until_the_end([], first) == 3
    assert failures_until_the_end([], [*later, None, *later]) == 22
    assert failures_until_the_end([], [*first[:2], None] * 5) == 16
    assert failures_until_the_end([], first, given=True) == 11


@pytest.mark.parametrize("lived_s", [1.0, 40.0])
def test_only_what_comes_soon_after_the_start_repeats(lived_s: float) -> None:
    error = Failed("KeyError: 'a'", "", is_final=False)
    for failure, doing in (
        (error, None),
        (None, in_step(3, first_episode=True)),
        (None, in_step(3)),
        (None, None),
    ):
        recurrence, said = Recurrence(), []
        for _ in range(4):
            recurrence.has_started()
            said.append(recurrence.ended(failure, doing, lived_s))
        repeats = lived_s < CALM_S and bool(failure or (doing and doing.suspect))
        assert [bool(each) for each in said] == [False, False, repeats, False]


def test_a_role_works_if_it_is_not_silent_for_longer_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """So one whose env takes long for a step is waited for, and one that is being started is not."""
    now = [100.0]
    monkeypatch.setattr(decisions.time, "monotonic", lambda: now[0])
    life = Played()
    supervisor = Plays([plan("the slow")], [life])

    def after(seconds: float, heartbeats: int) -> None:
        now[0] += seconds
        life.heartbeats += heartbeats
        supervisor.poll(seconds)

    after(3.0, 0)
    assert not supervisor.works(0, 4.0), "it has not begun"
    after(5.0, 1)
    assert supervisor.works(0, 4.0)
    after(4.5, 0)
    assert not supervisor.works(0, 4.0), "its start is no measure"
    after(1.5, 1)  # a silence of 6 s
    after(11.0, 0)
    assert supervisor.works(0, 4.0)
    after(2.0, 0)
    assert not supervisor.works(0, 4.0)
