"""What would have no effect in a callback is refused: methods that no event calls, and calls that do nothing."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

import veldt
from veldt.errors import UsageError
from veldt.tracking.callback import CallbackContext, CallbackGroup, refuse_unknown_events
from veldt.tracking.loggers.group import LoggerGroup

SMALL: dict[str, Any] = {"env": "CartPole-v1", "steps": 500, "env_backend": "in-process", "quiet": True}


class Misspelt(veldt.Callback):
    def on_updates(self, context: veldt.CallbackContext) -> None: ...


@pytest.mark.parametrize("name", ["onlog", "onLog", "on_Log"])
def test_an_event_without_its_underscore_is_refused(name: str) -> None:
    callback = type("Mine", (veldt.Callback,), {name: lambda self: None})()
    with pytest.raises(UsageError, match=f"{name} .did you mean 'on_log'.., and no event calls it"):
        refuse_unknown_events(callback)


def make_misspelt(run: Path) -> veldt.Callback:
    return Misspelt()


@pytest.mark.parametrize(
    "given",
    [{"callbacks": [Misspelt()]}, {"callback": "test_refused_callbacks:make_misspelt"}],
    ids=["object", "name"],
)
def test_a_method_that_no_event_calls_is_refused(given: dict[str, Any], tmp_path: Path) -> None:
    said = (
        "the callback Misspelt has the method on_updates .did you mean 'on_update'.., and no event calls it: the "
        "methods are on_start, on_rollout, on_update, on_log, on_evaluation, on_checkpoint, on_end; rename it"
    )
    with pytest.raises(UsageError, match=said):
        veldt.train("a2c", run_dir=tmp_path / "run", **given, **SMALL)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("_init_callback", "on_start"),
        ("_on_training_start", "on_start"),
        ("_on_rollout_start", "on_rollout, at the end of the rollout before"),
        ("_on_rollout_end", "on_rollout"),
        ("_on_step", "on_rollout, after all steps of a rollout, with context.stop"),
        ("on_step", "on_rollout, after all steps of a rollout, with context.stop"),
        ("_on_training_end", "on_end"),
        ("update_child_locals", "on_rollout, whose context"),
    ],
)
def test_a_method_of_stable_baselines_is_refused_with_the_event_in_its_place(name: str, here: str) -> None:
    callback = type("Mine", (veldt.Callback,), {name: lambda self: True})()
    with pytest.raises(UsageError) as refusal:
        refuse_unknown_events(callback)
    said = str(refusal.value)
    assert said.startswith(
        f"the callback Mine has the method {name} of Stable-Baselines3, and no event calls it"
    )
    assert f"in veldt it is {here}" in said


async def _coroutine(*_: Any) -> None: ...


async def _asynchronous_generator(*_: Any) -> Any:
    yield


def _generator(*_: Any) -> Any:
    yield


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (_coroutine, "a coroutine (async def), whose body a call does not run: make it a plain function"),
        (functools.partial(_coroutine), "a coroutine"),
        (_generator, "a generator (def with yield)"),
        (_asynchronous_generator, "an asynchronous generator"),
        (None, "None: it must be a method, or be left out"),
    ],
)
@pytest.mark.parametrize("on_instance", [False, True])
def test_an_event_that_is_no_plain_function_is_refused(method: Any, said: str, on_instance: bool) -> None:
    callback = veldt.Callback() if on_instance else type("Mine", (veldt.Callback,), {"on_update": method})()
    if on_instance:
        callback.on_update = method  # type: ignore[method-assign]
    with pytest.raises(UsageError) as refusal:
        refuse_unknown_events(callback)
    assert f"on_update of the callback {type(callback).__name__} is {said}" in str(refusal.value)


def test_attributes_of_an_object_are_called_or_refused_as_methods_are(tmp_path: Path) -> None:
    steps: list[int] = []
    callback = veldt.Callback()
    callback.on_end = lambda context: steps.append(context.step)  # type: ignore[method-assign]
    run = veldt.train("a2c", run_dir=tmp_path / "run", callbacks=[callback], **SMALL)
    assert steps == [run.summary["steps"]]
    callback.on_finish = print  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"has the method on_finish.*no event calls it"):
        refuse_unknown_events(callback)


def test_attributes_that_are_no_events_are_the_users_own() -> None:
    class Mine(veldt.Callback):
        on_cluster = True

        def _on_improvement(self) -> None: ...

        @property
        def on_track(self) -> bool:
            raise RuntimeError("not asked for")

    refuse_unknown_events(Mine())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda context: False,
            "on_log of the callback Mine returned False, which stops no run: call context.st",
        ),
        (
            lambda context: context.stop(None),
            "the callback Mine stops the run with the reason None: it must be a",
        ),
        (
            lambda context: context.stop(""),
            "the callback Mine stops the run with the reason '': it must be a sen",
        ),
        (
            lambda context: context.log_video("no.mp4"),
            "logs the video no.mp4, and there is no such file: write",
        ),
    ],
)
def test_a_call_without_effect_is_refused(call: Any, said: str, tmp_path: Path) -> None:
    loggers = LoggerGroup(tmp_path, [])
    group = CallbackGroup(
        [type("Mine", (veldt.Callback,), {"on_log": lambda self, context: call(context)})()],
        CallbackContext(tmp_path, {}, loggers),
    )
    with pytest.raises(UsageError, match=said):
        group.call("on_log", 0)
    loggers.close()
