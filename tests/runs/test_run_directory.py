"""A run directory is made once, found again with its settings and events, and trained in by one process."""

from __future__ import annotations

import dataclasses
import errno
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veldt.errors import UsageError, VeldtError
from veldt.runs.directory import RunDirectory

HOLD = """
import sys, time
from pathlib import Path
from veldt.runs.directory import RunDirectory
with RunDirectory(Path(sys.argv[1])).lock():
    print("held", flush=True)
    time.sleep(60)
"""


def new_run(root: Path, name: str = "ppo") -> RunDirectory:
    run = RunDirectory.create(root, name)
    run.write_config({}, {"seed": 1}, ["veldt", "train"], {"veldt": "0.1"})
    return run


def test_an_existing_name_gets_a_number(tmp_path: Path) -> None:
    runs = [RunDirectory.create(tmp_path / "runs", "ppo") for _ in range(3)]
    assert [run.path.name for run in runs] == ["ppo", "ppo-run2", "ppo-run3"]
    assert runs[0].checkpoints == tmp_path / "runs" / "ppo" / "checkpoints"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_a_name_is_a_plain_directory_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a run"):
        RunDirectory.create(tmp_path, name)


def test_a_file_in_the_way_is_an_error_not_an_endless_search(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    sentence = (
        r"cannot write a new run to .*/runs/ppo: .*/runs is not a directory; name another .* by --run-dir$"
    )
    with pytest.raises(VeldtError, match=sentence):
        RunDirectory.create(tmp_path / "runs", "ppo")


def test_settings_come_back_as_they_were(tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Learning:
        rate: float = 2.5e-4
        limit: float = math.inf

    run = RunDirectory.create(tmp_path, "ppo")
    run.write_config(
        {"path": Path("x")},
        {"learning": Learning(), "n": np.int64(3)},
        ["veldt"],
        {"torch": "2"},
        {"gpu": "H100"},
    )
    config = RunDirectory.open(run.path).read_config()
    assert config["given"] == {"path": "x"}
    assert config["resolved"] == {"learning": {"rate": 2.5e-4, "limit": math.inf}, "n": 3}
    assert config["hardware"]["gpu"] == "H100"
    assert config["hardware"]["memory_gb"] >= 1
    assert [path.name for path in run.path.iterdir()] == ["config.json"], "a temporary file was left"


def test_a_summary_is_absent_until_it_is_written(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert run.read_summary() is None
    run.write_summary({"ep_return_mean": math.nan, "steps": 10})
    summary = run.read_summary()
    assert summary is not None
    assert math.isnan(summary["ep_return_mean"])
    run.path.joinpath("summary.json").write_text("{")
    mend = r"; `veldt resume \S+` writes it anew \(without it, the run counts as broken off\)$"
    with pytest.raises(UsageError, match=r"summary\.json cannot be read: Expecting .*" + mend):
        run.read_summary()
    run.path.joinpath("summary.json").write_text("[]")
    with pytest.raises(UsageError, match=r"summary\.json is not a JSON object: .*" + mend):
        run.read_summary()
    os.truncate(run.path / "summary.json", 1 << 40)
    with pytest.raises(UsageError, match=r"summary\.json cannot be read: it is larger than 67\.1 MB" + mend):
        run.read_summary()


def test_a_config_that_is_no_file_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=r"is not a veldt run: its config\.json is not a regular file$"):
        RunDirectory.open(tmp_path)


def test_a_path_that_is_no_run_suggests_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_run(tmp_path / "runs", "ppo-breakout")
    with pytest.raises(UsageError, match=r"no such directory.*did you mean '.*ppo-breakout'"):
        RunDirectory.open(tmp_path / "runs" / "ppo-breakot")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UsageError, match=r"runs is not .*; it has runs in it \(1\), such as runs/ppo-breakout$"
    ):
        RunDirectory.open("runs")
    with pytest.raises(UsageError, match="did you mean 'runs/ppo-breakout'"):
        RunDirectory.open(Path("ppo-breakout"))
    with pytest.raises(UsageError, match=r"it has no config\.json"):
        RunDirectory.open(tmp_path)


def test_events_survive_a_torn_line(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.write_event(10, "restart", "env 3 was restarted")
    with (run.path / "events.jsonl").open("a") as file:
        file.write('{"step": 11, "ki')
    assert [event["kind"] for event in run.read_events()] == ["restart"]
    run.write_event(12, "resume", "from step 10")
    assert [(event["step"], event["kind"]) for event in run.read_events()] == [
        (10, "restart"),
        (12, "resume"),
    ]


@pytest.mark.parametrize("is_replaced", [False, True], ids=["moved", "replaced"])
def test_nothing_is_written_by_path_once_the_directory_was_moved(tmp_path: Path, is_replaced: bool) -> None:
    run = new_run(tmp_path)
    with run.lock():
        run.path.rename(tmp_path / "moved")
        if is_replaced:
            new_run(tmp_path)
        with pytest.raises(VeldtError, match=r"ppo was removed, moved or replaced"):
            run.write_event(10, "note", "of the run that was here")
        with pytest.raises(VeldtError, match=r"ppo was removed, moved or replaced"):
            run.write_summary({"steps": 10})
    assert RunDirectory(run.path).read_events() == []
    assert RunDirectory(run.path).read_summary() is None


def test_a_second_process_is_refused_with_the_first_ones_number(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert not run.is_locked()
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(run.path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        assert run.is_locked()
        with pytest.raises(UsageError, match=f"trained by process {holder.pid}"), run.lock():
            pass
    finally:
        holder.kill()
        holder.communicate()
    with run.lock():
        assert run.is_locked()
    assert not run.is_locked()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_worker_that_outlives_a_killed_trainer_does_not_keep_the_run(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    reader, writer = os.pipe()
    with run.lock():
        worker = os.fork()
        if worker == 0:
            os.write(writer, b"here")
            signal.pause()
        os.read(reader, 4)
    try:
        with run.lock():
            pass
    finally:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)
        os.close(reader)
        os.close(writer)


def test_a_directory_that_may_not_be_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another user's run: simulated, since the user of the tests may enter every directory as root."""

    def stat(path: Path, **_: Any) -> os.stat_result:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(UsageError, match=r"^theirs/run cannot be read: Permission denied$"):
        RunDirectory.open("theirs/run")
