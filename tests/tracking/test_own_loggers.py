"""A user's own logger gets every row of metrics; one that fails does not end the run, and its error is shown."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import veldt
from tiny_runs import TINY
from veldt.errors import UsageError
from veldt.runs.directory import RunDirectory
from veldt.tracking.loggers.choice import named_loggers, opened_loggers
from veldt.tracking.loggers.group import LoggerGroup
from veldt.tracking.loggers.logger import missing_of_logger
from veldt.tracking.metrics import read_metrics

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own_logger.py"
SETTINGS: dict[str, Any] = {
    "env": "CartPole-v1",
    "steps": 2000,
    "threads": 1,
    "precision": "fp32",
    "env_backend": "in-process",
    "device": "cpu",
    "log_every": 0.0,
    "quiet": True,
}
OWN = """
from pathlib import Path
def alone(): pass
class Mine:
    def __init__(self, path): self.path = path
    def say(self, *words): self.path.open("a").write(" ".join(map(str, words)) + "\\n")
    def log_config(self, config): self.say("config", config["recipe"])
    def log(self, step, metrics): self.say("row", step)
    def close(self): self.say("close")
def make(run): return Mine(run / "mine.txt")
def fails(run): raise RuntimeError("no connection")
def nothing(run): return None
def leaves(run): raise SystemExit(3)
def whole_class(run): return Mine
"""


class Emptying(veldt.Logger):
    """Takes away what it gets."""

    def log_config(self, config: Any) -> None:
        config["resolved"].clear()

    def log(self, step: int, metrics: Any) -> None:
        metrics.clear()


class Recorder(veldt.Logger):
    """Remembers all calls."""

    def __init__(self) -> None:
        self.config: Mapping[str, Any] = {}
        self.rows: list[tuple[int, Mapping[str, float]]] = []
        self.rewound: list[int] = []
        self.closed = 0

    def log_config(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.rows.append((step, metrics))

    def rewind(self, step: int) -> None:
        self.rewound.append(step)

    def close(self) -> None:
        self.closed += 1


class Failing(Recorder):
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        super().log(step, metrics)
        raise RuntimeError("it is full")


def test_a_logger_gets_the_settings_and_every_row(tmp_path: Path) -> None:
    mine = Recorder()
    run = veldt.train("a2c", run_dir=tmp_path / "run", loggers=[mine], log="none", **SETTINGS)
    assert not (run.path / "tensorboard").exists()
    assert mine.config["run"]["steps"] == 2000 and mine.config["recipe"] == "a2c"
    assert [{"step": step, **metrics} for step, metrics in mine.rows] == read_metrics(run.path)
    assert mine.closed == 1 and not mine.rewound
    again = Recorder()
    veldt.resume(run.path, steps=3000, loggers=[again], quiet=True)
    assert again.rewound == [run.summary["steps"]] and again.closed == 1
    assert [{"step": step, **metrics} for step, metrics in mine.rows + again.rows] == read_metrics(run.path)


def test_a_logger_that_raises_is_dropped_with_one_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing, other = Failing(), Recorder()
    settings = SETTINGS | {"quiet": False}
    run = veldt.train("a2c", run_dir=tmp_path / "run", loggers=[failing, other], **settings)
    said = "the logger Failing (module test_own_loggers) raised RuntimeError: it is full; it gets no more metrics"
    assert run.reason == "steps" and len(failing.rows) == 1 < len(other.rows)
    assert failing.closed == other.closed == 1
    assert [
        event["text"] for event in RunDirectory.open(run.path).read_events() if event["kind"] == "logger"
    ] == [said]
    assert capsys.readouterr().err.count(said) == 1


class FailsAtTheEnd(Recorder):
    def close(self) -> None:
        raise RuntimeError("no connection")


def test_a_logger_that_raises_when_it_is_closed_is_in_the_events(tmp_path: Path) -> None:
    run = veldt.train(
        "ppo", env="CartPole-v1", run_dir=tmp_path / "run", loggers=[FailsAtTheEnd()], quiet=True, **TINY
    )
    (event,) = RunDirectory.open(run.path).read_events()
    assert event["kind"] == "logger" and event["step"] == run.summary["steps"]
    assert "FailsAtTheEnd (module test_own_loggers) raised RuntimeError: no connection" in event["text"]


def test_a_logger_gets_the_rows_of_a_distributed_run(tmp_path: Path) -> None:
    mine = Recorder()
    run = veldt.train(
        "impala", env="CartPole-v1", steps=2000, actors=1, num_envs=2, run_dir=tmp_path / "run", quiet=True,
        log_every=0.2, loggers=[mine],
    )  # fmt: skip
    assert [step for step, _ in mine.rows] == [row["step"] for row in read_metrics(run.path)]
    assert mine.closed == 1


class LogAlone:
    """A logger that does not inherit, and that would end the process."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.steps.append(step)
        if len(self.steps) == 3:
            sys.exit(3)


def test_a_logger_needs_log_alone_and_does_not_end_the_run(tmp_path: Path) -> None:
    one: Any = LogAlone()
    run = veldt.train("a2c", run_dir=tmp_path / "run", loggers=[one], log="none", **SETTINGS)
    assert run.reason == "steps" and len(one.steps) == 3
    events = RunDirectory.open(run.path).read_events()
    assert [event["text"] for event in events if event["kind"] == "logger"] == [
        "the logger LogAlone (module test_own_loggers) raised SystemExit: 3; it gets no more metrics"
    ]


@pytest.fixture
def own(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a module of the user's."""
    (in_tmp / "loggers_of_mine.py").write_text(OWN)
    monkeypatch.setenv("XDG_STATE_HOME", str(in_tmp / "state"))
    monkeypatch.delitem(sys.modules, "loggers_of_mine", raising=False)
    monkeypatch.setattr("veldt.user_code.trusted._of_this_process", set())
    return in_tmp


def test_a_logger_by_name_is_remembered_and_trusted_where_it_was_trained_with(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = veldt.train("a2c", run_dir="run", log="tensorboard,loggers_of_mine:make", **SETTINGS)
    lines = (run.path / "mine.txt").read_text().splitlines()
    assert lines[0] == "config a2c" and lines[-1] == "close"
    assert lines.count("close") == 1 and sum(line.startswith("row") for line in lines) > 10
    veldt.resume(run.path, steps=2500, quiet=True)
    assert (run.path / "mine.txt").read_text().splitlines().count("close") == 2
    # Somebody else's run is not allowed to import code.
    monkeypatch.setenv("XDG_STATE_HOME", str(own / "other"))
    monkeypatch.setattr("veldt.user_code.trusted._of_this_process", set())
    with pytest.raises(UsageError, match=r"--trust.*--log loggers_of_mine:make"):
        veldt.resume(run.path, steps=3000, quiet=True)
    veldt.resume(run.path, steps=3000, log="none", quiet=True)
    assert (run.path / "mine.txt").read_text().splitlines().count("close") == 2


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("loggers_of_mine:fails", "the function raised RuntimeError: no connection"),
        ("loggers_of_mine:nothing", "returned None, which has no method log"),
        ("loggers_of_mine:alone", "; it is called with one argument, the run's directory"),
        ("loggers_of_mine:leaves", "the function raised SystemExit: 3"),
        ("loggers_of_mine:whole_class", r"which is a class: call it, Mine\(...\)"),
        ("loggers_of_mine:absent", "no function 'absent'"),
        ("no_such_module:make", "there is no module 'no_such_module'"),
    ],
)
def test_a_function_that_makes_no_logger_is_refused_before_training(own: Path, log: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        veldt.train("a2c", run_dir="run", log=log, **SETTINGS)
    assert not (own / "run").exists()


def test_loggers_that_were_made_are_closed_where_the_next_one_cannot_be(tmp_path: Path) -> None:
    def fails(directory: Path) -> veldt.Logger:
        raise RuntimeError("no connection")

    first = Recorder()
    functions = {"a:make": lambda directory: first, "b:make": fails}
    opened = opened_loggers("a:make,b:make", tmp_path, "id", {}, functions, [], print)
    with pytest.raises(UsageError, match="--log b:make: the function raised RuntimeError"), opened:
        pass
    assert first.closed == 1


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("tensorbord", "did you mean 'tensorboard'"),
        ("none,wandb", "--log is 'none,wandb', and none means no logger: leave none out, or the others"),
        ("wandb,wandb", "names wandb twice"),
        ("", "no logger is called ''"),
        ("mine.py:make", "write it as mine:make"),
    ],
)
def test_names_that_no_logger_has(log: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        named_loggers(log)


def test_the_example_writes_its_file(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "extend" / "loggers.md").read_text()
    assert EXAMPLE.read_text() in page
    example = runpy.run_path(str(EXAMPLE))
    logger = example["make_logger"](in_tmp)
    run = veldt.train("a2c", run_dir="run", loggers=[logger], **SETTINGS)
    lines = (in_tmp / "return.csv").read_text().splitlines()
    assert lines[0] == "step,rollout/ep_return_mean,train/loss"
    assert lines[-1].startswith(f"{run.summary['steps']},{run.summary['ep_return_mean']}")


def test_a_missing_package_is_one_sentence_of_the_command(in_tmp: Path) -> None:
    code = "import sys; sys.modules['mlflow'] = None\nfrom veldt.cli import main\nmain(sys.argv[1:])"
    command = [sys.executable, "-c", code, "train", "a2c", "--env", "CartPole-v1", "--log", "mlflow"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert ended.stderr.strip().splitlines() == [
        "veldt: --log mlflow needs the package mlflow, which is not installed: pip install 'veldt[mlflow]'"
    ]


class Misspelt(veldt.Logger):
    def on_log(self, step: int, metrics: Mapping[str, float]) -> None: ...


class Asynchronous:
    async def log(self, step: int, metrics: Mapping[str, float]) -> None: ...


@pytest.mark.parametrize(
    ("logger", "said"),
    [
        (Misspelt(), "whose class defines none of the methods of a logger (log_config, log, "),
        (Asynchronous(), "whose log is a coroutine (async def), which a call does not run"),
        (Recorder(), ""),
    ],
)
def test_a_logger_that_would_get_nothing_is_refused(logger: Any, said: str) -> None:
    lack = missing_of_logger(logger)
    assert lack.startswith(said) if said else not lack


def test_a_logger_gets_its_own_copy(tmp_path: Path) -> None:
    recorder, config, row = Recorder(), {"resolved": {"seed": 1}}, {"loss": 0.5}
    loggers = LoggerGroup(tmp_path, [("emptying", Emptying()), ("recorder", recorder)])
    loggers.log_config(config)
    loggers.log(1, row)
    loggers.close()
    assert recorder.config == config == {"resolved": {"seed": 1}}
    assert recorder.rows == [(1, row)] and row == {"loss": 0.5}
    assert not loggers.take_problems()
