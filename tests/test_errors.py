"""Suggestions: what is close is offered, what is not is left out."""

from __future__ import annotations

import signal

import pytest

from veldt.errors import Escaped, UsageError, contained, described, did_you_mean, traceback_of

NAMES = ["CartPole-v0", "CartPole-v1", "phys2d/CartPole-v1", "ALE/Pong-v5", "Ant-v5", "Hopper-v5", "Taxi-v4"]
FLAGS = ["--steps", "--threads", "--hidden", "--no-compile", "--compile"]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("CartPol-v1", NAMES, "CartPole-v1"),
        ("cartpole-v1", NAMES, "CartPole-v1"),
        ("CartPole-v3", NAMES, "CartPole-v1"),
        ("phys2d/CartPol-v1", NAMES, "phys2d/CartPole-v1"),
        ("Pong-v5", NAMES, "ALE/Pong-v5"),
        ("Nope-v5", NAMES, None),
        ("PongNoFrameskip-v4", NAMES, None),
        ("--stepz", FLAGS, "--steps"),
        ("--no-compil", FLAGS, "--no-compile"),
        ("--batch-size", FLAGS, None),
        ("runs/ppo-breakot", ["a/runs/ppo-breakout"], "a/runs/ppo-breakout"),
        ("", NAMES, None),
        ("sac", ["a3c", "ppo"], None),
        ("dqm", ["ddpg", "dqn"], "dqn"),
    ],
)
def test_the_closest_name(name: str, known: list[str], meant: str | None) -> None:
    assert did_you_mean(name, known) == (f" (did you mean '{meant}'?)" if meant else "")


def test_a_long_value_leaves_the_beginning_and_the_end_of_a_message() -> None:
    text = str(UsageError(f"--env is {'x' * 100_000}: it must be a name"))
    assert text.startswith("--env is xxx") and text.endswith("xxx: it must be a name")
    assert " characters left out]" in text and len(text) < 2_100


def test_a_long_message_of_user_code_is_shortened_in_the_sentence_and_in_the_traceback() -> None:
    try:
        try:
            raise KeyError("x" * 100_000)
        except KeyError as error:
            error.add_note("y" * 100_000)
            raise ValueError("begin " + "z" * 100_000 + " end") from error
    except ValueError as raised:
        text, details = described(raised), traceback_of(raised)
    assert text.startswith("ValueError: begin zzz") and text.endswith("zzz end") and len(text) < 2_100
    assert details.count(" characters left out]") == 3 and len(details) < 7_000
    assert details.startswith("Traceback (most recent call last):") and "in test_a_long_message" in details
    assert "KeyError: 'xxx" in details and details.endswith("zzz end\n")


def test_an_error_whose_text_fails_is_named() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    assert described(Mute()) == "Mute: its message cannot be printed, because its __str__ fails"


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit])
def test_what_ends_generators_passes_them_if_user_code_raises_it(kind: type[BaseException]) -> None:
    """Python would replace the first by a RuntimeError, and the second would be no Exception."""

    def step() -> int:
        try:
            raise kind("the data are at their end")
        except BaseException as error:
            contained(error)

    with pytest.raises(Exception) as caught:
        sum(step() for _ in range(2))
    assert described(caught.value) == f"{kind.__name__}: the data are at their end"


def test_an_interrupt_is_one_of_user_code_where_signals_are_left_to_the_parent() -> None:
    """An actor would end with a traceback, and be started again, although its environment had raised it."""
    with pytest.raises(KeyboardInterrupt):
        contained(KeyboardInterrupt())
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(Escaped, match="KeyboardInterrupt"):
            contained(KeyboardInterrupt())
    finally:
        signal.signal(signal.SIGINT, before)
