"""Progress is a plain line or a panel, and a closed screen does not stop the run."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from veldt.tracking import progress as progress_module
from veldt.tracking.progress import Progress

ROW: dict[str, Any] = {
    "step": 4_120_000, "frames": 16_480_000, "seconds": 724.0,
    "time/steps_per_second": 5432.0, "time/frames_per_second": 21728.0,
    "rollout/ep_return_mean": 187.31, "rollout/episodes": 4120, "share_simulate": 0.61, "share_infer": 0.12,
    "share_train": 0.2, "share_wait": 0.05, "eta_seconds": 1040.0,
}  # fmt: skip
BROKEN = """
import sys
from veldt.tracking.progress import Progress
stream = getattr(sys, sys.argv[1])
shown = Progress("run", 100, stream=stream)
for step in range(3):
    shown.note("a line")
    shown.update({"step": step})
    shown.close()
shown.update({"step": 4})
open(sys.argv[2], "w").write("went on")
"""


class Clock:
    """Stands in for `time` in the module under test."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
    return clock


def test_a_row_that_is_not_new_is_a_line_only_before_the_first_step(clock: Clock) -> None:
    """It does not delay the line of a new row either."""
    stream = io.StringIO()
    shown = Progress("run", 1000, stream=stream)
    for tick in range(110):
        clock.now = tick / 10
        shown.refresh({"step": 0, "seconds": clock.now})
    shown.update({"step": 64, "seconds": clock.now})
    for tick in range(110, 200):
        clock.now = tick / 10
        shown.refresh({"step": 64, "seconds": clock.now})
    lines = stream.getvalue().splitlines()
    assert [line.split("/")[0] for line in lines] == ["step 0"] * 3 + ["step 64"], lines


def test_a_line_at_once_then_every_five_seconds(clock: Clock) -> None:
    stream = io.StringIO()
    shown = Progress("run", 10_000_000, 195.0, stream=stream)
    for tick in range(110):
        clock.now = tick / 10
        shown.update({**ROW, "step": tick})
    lines = stream.getvalue().splitlines()
    assert [line.split("/")[0] for line in lines] == ["step 0", "step 50", "step 100"]


def test_the_plain_line() -> None:
    stream = io.StringIO()
    Progress("run", 10_000_000, 195.0, stream=stream).update(ROW)
    assert stream.getvalue() == (
        "step 4,120,000/10,000,000 (41%)  return 187.3 (until 195.0)  episodes 4,120  sps 5,432  fps 21,728  "
        "simulate 61% infer 12% train 20% wait 5%  time 12m 04s  left 17m 20s\n"
    )


def test_before_the_first_step_the_plain_line_says_what_goes_on() -> None:
    stream = io.StringIO()
    row = {"step": 0, "seconds": 6.0, "time/steps_per_second": 0.0, "share_wait": 1.0}
    Progress("run", 2000, stream=stream).update(row)
    assert stream.getvalue() == (
        "step 0/2,000 (0%)  no step so far (processes start, envs are reset, a first rollout is played)  time 6.0s\n"
    )


@pytest.mark.parametrize(
    "row", [{}, {"step": 0}, dict.fromkeys(ROW), {**ROW, "rollout/ep_return_mean": float("nan")}]
)
def test_metrics_that_are_not_known_yet_are_no_trouble(row: dict[str, Any]) -> None:
    stream = io.StringIO()
    Progress("run", 100, stream=stream).update(row)
    assert len(stream.getvalue().splitlines()) == 1


PAST_THE_END = {"step": 3937, "seconds": 0.9, "eta_seconds": -0.4}


def test_a_return_that_has_diverged_is_no_number_of_forty_digits() -> None:
    stream = io.StringIO()
    Progress("run", 10_000_000, stream=stream).update(ROW | {"rollout/ep_return_mean": 5.0e39})
    assert "return 5e+39  " in stream.getvalue()


def test_the_last_batch_may_go_beyond_the_steps_but_not_beyond_all_of_them() -> None:
    stream = io.StringIO()
    Progress("run", 2000, stream=stream).update(PAST_THE_END)
    assert stream.getvalue() == "step 3,937/2,000 (100%)  time 0.9s\n"


def read_available(descriptor: int) -> str:
    os.set_blocking(descriptor, False)
    text = b""
    try:
        while chunk := os.read(descriptor, 65536):
            text += chunk
    except (BlockingIOError, OSError):
        pass
    return text.decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TERM", "xterm-256color")
    controller, screen = pty.openpty()
    with os.fdopen(screen, "w") as stream:
        yield controller, stream


def test_on_a_terminal_there_is_a_panel_four_times_a_second_at_most(terminal: Any, clock: Clock) -> None:
    controller, stream = terminal
    shown = Progress("impala on Breakout", 10_000_000, 195.0, stream=stream)
    for tick in range(81):
        clock.now = tick / 40
        shown.update(ROW)
    text = read_available(controller)
    assert text.count("impala on Breakout") == 9  # Two seconds: 0, 0.25, ... 2.
    for part in ("41%", "187.3", "5,432", "simulate", "61%", "17m 20s left"):
        assert part in text
    shown.note("env 3 was restarted [bold]")
    assert "…" not in text, "the panel does not fit 80 columns"
    assert "env 3 was restarted [bold]" in read_available(controller)
    shown.close()
    assert sys.stderr is not stream


@pytest.mark.parametrize(
    "row", [{}, {"step": 0}, dict.fromkeys(ROW), {**ROW, "rollout/ep_return_mean": float("nan")}]
)
def test_the_panel_shows_all_known_metrics(terminal: Any, row: dict[str, Any]) -> None:
    controller, stream = terminal
    shown = Progress("run", 100, stream=stream)
    shown.update(row)
    shown.close()
    assert "return" in read_available(controller)


def test_the_panel_ends_at_all_of_the_steps(terminal: Any) -> None:
    controller, stream = terminal
    shown = Progress("run", 2000, stream=stream)
    shown.update(PAST_THE_END)
    shown.close()
    text = read_available(controller)
    assert "100%" in text and "left" not in text


def test_a_terminal_that_is_closed_makes_it_quiet(terminal: Any, clock: Clock) -> None:
    controller, stream = terminal
    standard = sys.stdout, sys.stderr
    shown = Progress("run", 100, stream=stream)
    os.close(controller)
    for tick in range(3):
        clock.now = float(tick)
        shown.update(ROW)
        shown.note("more")
    shown.close()
    assert (sys.stdout, sys.stderr) == standard


@pytest.mark.parametrize("stream", ["stderr", "stdout"])
def test_a_broken_pipe_does_not_end_the_process_nor_spoil_its_exit_code(tmp_path: Path, stream: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", BROKEN, stream, str(tmp_path / "after")]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, check=False, env=buffered, **{stream: writer})
    os.close(writer)
    assert (tmp_path / "after").read_text() == "went on"
    assert done.returncode == 0


def test_a_closed_stream_makes_it_quiet() -> None:
    stream = io.StringIO()
    shown = Progress("run", 100, stream=stream)
    stream.close()
    shown.update(ROW)
    shown.close()


def test_a_stream_without_the_signs_gets_others_instead() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    shown = Progress("run", 100, stream=stream)
    shown.note("déjà vu")
    shown.update({"step": 1})
    stream.seek(0)
    assert stream.read() == "d?j? vu\nstep 1/100 (1%)\n"


def test_a_programs_own_stream_that_has_little_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that writes to the terminal and to a file: it is asked neither for a terminal nor for a descriptor."""

    class Both:
        def __init__(self) -> None:
            self.text = ""

        def write(self, text: str) -> None:
            if len(self.text) > 20:
                raise OSError
            self.text += text

        def flush(self) -> None:
            pass

    both = Both()
    monkeypatch.setattr(sys, "stderr", both)
    with Progress("ppo", 100) as progress:
        progress.note("a line of some length")
        progress.note("a disk is full")
    assert both.text == "a line of some length\n"
