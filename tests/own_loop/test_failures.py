"""What fails in a program is one sentence, and leaves nothing behind."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import programs
import psutil
import pytest
from torch import nn

import veldt

SERVER = veldt.GradientServer(programs.zeros, programs.sgd, source="learner")
WEIGHTS = veldt.ModelServer(programs.network, source="learner")
BUFFER = veldt.DistributedBuffer(programs.ROW, "actor", "learner", capacity=100, batch_size=10)


def roles(**functions: Any) -> dict[str, veldt.Processes]:
    return {role: veldt.Processes(function) for role, function in functions.items()}


def test_an_exception_names_file_and_line_and_carries_the_traceback() -> None:
    with pytest.raises(veldt.VeldtError) as caught:
        veldt.run_roles({"learner": veldt.Processes(programs.raises, 2)})
    line = 1 + Path(programs.__file__).read_text().splitlines().index(
        '    raise ZeroDivisionError("two by nothing")'
    )
    place = rf"{re.escape(programs.__file__)}, line {line}, in raises"
    message = rf"the learner \d failed \(ZeroDivisionError: two by nothing \({place}\)\)"
    assert re.fullmatch(message, str(caught.value))
    assert 'raise ZeroDivisionError("two by nothing")' in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("functions", "pieces", "message"),
    [
        (
            {"one": programs.exits},
            {},
            r"the one failed \(SystemExit: 3 \(.*programs.py, line \d+, in exits\)\)",
        ),
        ({"one": programs.kills_itself}, {}, r"the one was killed by SIGKILL"),
        (
            {"one": programs.raises_at_the_end, "other": programs.waits},
            {},
            r"^the one failed \(ValueError: could not save \(.*programs.py, line \d+, in raises_at_the_end\)\)",
        ),
        (
            {"one": programs.returns_what_cannot_be_sent},
            {},
            r"^the one failed \(what the one returned\['history'\]\[1\]\[1\] is of the type set: .* must be None, a",
        ),
        (
            {"learner": programs.pushes_nan},
            {"gradients": SERVER},
            r"the learner failed \(the gradient of 'weight' is not finite: training has diverged",
        ),
        (
            {"learner": programs.publishes_nothing, "actor": programs.pulls_alone},
            {"weights": dataclasses.replace(WEIGHTS, deadline_s=0.5)},
            r"nothing was published to the model server 'weights' for 0.5 s: the learner must publish",
        ),
        (
            {"learner": programs.publishes_other, "actor": programs.pulls},
            {"weights": WEIGHTS},
            r"the weights 'weight' are float32 \[1, 3\] here and float32 \[1, 2\] at their source",
        ),
        (
            {"learner": programs.samples, "actor": programs.adds_another_row},
            {"replay": BUFFER},
            r"'number' of a row is float64 \[\], and the buffer's is int64 \[\]",
        ),
        (
            {"learner": programs.renews, "actor": programs.adds_too_little},
            {"replay": dataclasses.replace(BUFFER, deadline_s=0.5)},
            r"the buffer 'replay' has given no batch for 0.5 s: it has 0 rows, 0 were added, .* after 10",
        ),
    ],
)
def test_a_sentence(functions: Any, pieces: Any, message: str) -> None:
    taken = roles(**functions)
    if programs.samples in functions.values():
        taken["learner"] = veldt.Processes(programs.samples, kwargs={"batches": 1})
    with pytest.raises(veldt.VeldtError, match=message):
        veldt.run_roles(taken, pieces)


def test_a_function_that_does_not_return_in_time_is_named() -> None:
    logged = []
    done = veldt.run_roles(
        roles(learner=programs.stops_and_goes_on, actor=programs.waits),
        stop_s=0.5,
        log=lambda *values: logged.append(values),
    )
    assert (done.reason, done.killed, done.returned["actor"]) == ("stopped", ("learner",), ["asked"])
    assert logged == [("veldt", {"note": "the learner did not return within 0.5 s and was killed"})]


def test_an_interrupted_program_raises_and_shows_what_failed_meanwhile() -> None:
    logged = []
    with pytest.raises(KeyboardInterrupt) as interrupt:
        one = veldt.Processes(programs.interrupts_and_raises, kwargs={"program": os.getpid()})
        veldt.run_roles({"one": one}, log=lambda *values: logged.append(values))
    (done,) = interrupt.value.args
    assert (done.reason, done.returned) == ("interrupted", {"one": [None]})
    ((_, said),) = logged
    assert (
        said["note"].startswith("the one failed (ValueError: could not save (")
        and "Traceback" in said["note"]
    )


def test_a_server_that_is_gone() -> None:
    learner = veldt.Processes(programs.kills_server, kwargs={"name": "gradients server"})
    with pytest.raises(veldt.VeldtError, match=r"^the gradients server was killed by SIGKILL"):
        veldt.run_roles({"learner": learner}, {"gradients": SERVER})


def test_a_process_that_hangs() -> None:
    with pytest.raises(veldt.VeldtError, match=r"^the learner sent no heartbeat for 1 s") as caught:
        veldt.run_roles({"learner": veldt.Processes(programs.hangs, deadline_s=1.0)})
    assert "in hangs" in caught.value.__notes__[0]


def test_a_process_is_started_again_where_that_is_allowed() -> None:
    logged = []
    done = veldt.run_roles(
        {"learner": veldt.Processes(programs.kills_itself, max_restarts=1)},
        log=lambda *values: logged.append(values),
    )
    assert done.returned == {"learner": [1]} and logged[0][0] == "learner"


ONE = veldt.Processes(programs.waits)


@pytest.mark.parametrize(
    ("taken", "pieces", "message"),
    [
        ({}, {}, r"got no roles"),
        (
            {"one": programs.waits},
            {},
            r"the role 'one' is <function waits .*>: give veldt.Processes\(function\)",
        ),
        (
            {"one": ONE},
            {"weights": veldt.ModelServer},
            r"the piece 'weights' is <class .*>: give an object of veldt",
        ),
        (
            roles(learner=programs.publishes),
            {"weigths": WEIGHTS},
            r"takes 'weights' \(did you mean 'weigths'\?\)",
        ),
        ({"one": ONE}, {"weights": WEIGHTS}, r"no function takes the piece 'weights'"),
        (
            roles(leaner=programs.publishes, actor=programs.pulls),
            {"weights": WEIGHTS},
            r"did you mean 'leaner'",
        ),
        (roles(learner=programs.publishes), {"weights": WEIGHTS}, r"nobody pulls from the model server"),
        (
            roles(learner=programs.renews, actor=programs.adds_too_little, third=programs.renews),
            {"replay": BUFFER},
            r"the role 'third' takes the buffer 'replay', whose source is 'actor'",
        ),
        ({"one": veldt.Processes(lambda: None)}, {}, r"has no parameter for its process"),
        (
            {"one": veldt.Processes(programs.waits, kwargs={"speed": 1})},
            {},
            r"'speed', which is not a parameter",
        ),
        (
            {"one": veldt.Processes(lambda process, lock: None, kwargs={"lock": (x for x in ())})},
            {},
            r"cannot be sent to a process",
        ),
        (
            roles(learner=programs.publishes, actor=programs.pulls),
            {"weights": veldt.ModelServer(nn.Linear(2, 1), source="learner")},  # type: ignore[arg-type]
            r"not the network itself",
        ),
    ],
)
def test_a_program_that_does_not_fit_is_refused_before_anything_starts(
    taken: Any, pieces: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("veldt.own_loop.run.start_local", lambda _: pytest.fail("it was started"))
    with pytest.raises(veldt.UsageError, match=message):
        veldt.run_roles(taken, pieces)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"count": 2.0}, "count of Processes is 2.0: it must be a whole number"),
        ({"count": 0}, "count of Processes is 0: it must be at least 1"),
        ({"deadline_s": "5"}, "deadline_s of Processes is '5': it must be a finite number"),
    ],
)
def test_a_role_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(veldt.UsageError, match=message):
        veldt.Processes(programs.waits, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"capacity": 5}, r"capacity of a DistributedBuffer is 5, .* take at least 10"),
        ({"alpha": 2.0}, r"alpha of a DistributedBuffer is 2.0"),
        ({"source": "learner"}, r"source and target of a DistributedBuffer are both 'learner'"),
        ({"row": {"x": "float32"}}, r"row\['x'\] of a DistributedBuffer is 'float32': give shape and dtype"),
        ({"row": {}}, r"row of a DistributedBuffer is empty"),
    ],
)
def test_a_buffer_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"row": programs.ROW, "source": "actor", "target": "learner"}
    with pytest.raises(veldt.UsageError, match=message):
        veldt.DistributedBuffer(**{**usual, "capacity": 100, "batch_size": 10, **settings})


SCRIPT = """
import time, veldt

def waits(process):
    print(f"begun {process.index}\\n", end="", flush=True)  # one write: the other process prints, too
    while process.running:
        time.sleep(0.01)

try:
    veldt.run_roles({"one": veldt.Processes(waits, 2)})
except KeyboardInterrupt as interrupt:
    (done,) = interrupt.args
    print("ended:", done.reason, flush=True)
    raise
"""


@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_a_script(number: int, tmp_path: Path) -> None:
    """The script has no `if __name__ == "__main__"`."""
    (tmp_path / "script.py").write_text(SCRIPT)
    errors = tmp_path / "errors.txt"
    with subprocess.Popen(
        [sys.executable, "-u", "script.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=errors.open("w"),
        text=True,
    ) as ran:
        try:
            assert ran.stdout is not None
            assert {ran.stdout.readline(), ran.stdout.readline()} == {"begun 0\n", "begun 1\n"}
            family = psutil.Process(ran.pid).children(recursive=True)
            assert len(family) >= 2
            os.kill(ran.pid, number)
            said = ran.stdout.read()
        except BaseException:
            ran.kill()
            raise
    assert said == ("" if number == signal.SIGKILL else "ended: interrupted\n")
    # Python ends itself by SIGINT where nothing catches KeyboardInterrupt.
    ended_by = signal.SIGKILL if number == signal.SIGKILL else signal.SIGINT
    assert ran.returncode == -ended_by, errors.read_text()
    end = time.monotonic() + 20
    while [process for process in family if process.is_running()]:
        assert time.monotonic() < end
        time.sleep(0.05)
