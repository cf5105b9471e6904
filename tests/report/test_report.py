"""A report is one file without references to others, for runs in any state, and shows only what was recorded."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veldt.errors import UsageError, VeldtError
from veldt.report import write_report
from veldt.report.charts import Series, clipped, line_chart
from veldt.report.data import RunData, on_common_grid, smoothed
from veldt.report.groups import grouped
from veldt.report.status import status_of
from veldt.runs import files
from veldt.runs.directory import RunDirectory
from veldt.tracking.loggers.metrics_file import MetricsFile

VOID = {"meta", "path", "use", "br"}


class Page(HTMLParser):
    """Reads a page: its text, its ids, what it refers to; fails on tags that are not closed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.source = path.read_text()
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name.split(":")[-1] in ("href", "src", "srcset", "action"):
                self.links.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def make_run(
    root: Path, name: str, *, rows: int = 60, finished: bool = True, reason: str = "steps", **settings: Any
) -> RunDirectory:
    given = {"run": {"seed": settings.get("seed", 1)}, **settings.pop("given", {})}
    run_settings = {"seed": settings.pop("seed", 1), "device": "cpu", "precision": "fp32"}
    settings = {"recipe": "ppo", "env": "CartPole-v1", "learning": {"rate": 2.5e-4}} | settings
    settings["run"] = {"steps": 60_000, "until": settings.pop("until", None)} | run_settings
    run = RunDirectory.create(root, name)
    run.write_config(given, settings, ["veldt", "train", "it's"], {"veldt": "0.1"})
    log = MetricsFile(run.path)
    for i in range(1, rows + 1):
        row = {
            "step": 1000 * i,
            "frames": 1000 * i,
            "seconds": 0.5 * i,
            "time/steps_per_second": 2000.0,
            "rollout/episodes": 5 * i,
        }
        row |= {
            "rollout/interval_return_mean": i + 0.5,
            "rollout/interval_length_mean": float(i),
        }
        row |= {
            "train/loss": 1 / i,
            "train/entropy": 0.7,
            "time/simulate_seconds": 0.3,
            "time/train_seconds": 0.1,
        }
        if i >= 3:
            row["rollout/ep_return_mean"] = float(i)
        log.log(int(row.pop("step")), {**row, "train/policy_lag_mean": float("nan") if i == 5 else 0.5})
    log.close()
    if finished:
        summary = {
            "recipe": settings["recipe"],
            "env": settings["env"],
            "seed": run_settings["seed"],
            "reason": reason,
            "steps": 1000 * rows,
        }
        stages = {"simulate": 18.0, "train": 6.0, "<other>": 1.0}
        run.write_summary({**summary, "seconds": 30.0, "ep_return_mean": 60.0, "seconds_per_stage": stages})
    return run


def report(tmp_path: Path, *runs: RunDirectory) -> Page:
    page = Page(write_report([run.path for run in runs], tmp_path / "report.html"))
    assert all(link.startswith("#") for link in page.links), "a report needs nothing but itself"
    assert not re.search(r"https?://|@import|<script|<link", page.source)
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert set(re.findall(r"url\(#([^)]*)\)", page.source)) <= set(page.ids)
    assert "#a0000" not in page.source and "#b0000" not in page.source, "a stand-in colour was not replaced"
    return page


def test_a_finished_run(tmp_path: Path) -> None:
    run = make_run(tmp_path, "mine")
    run.write_event(1234, "restart", "env 3 was restarted")
    page = report(tmp_path, run)
    for part in (
        "CartPole-v1",
        "Finished its steps",
        "mine",
        "60.0",
        "60k",
        "simulate",
        "Total loss",
        "Entropy",
        "Policy lag",
    ):
        assert part in page.text
    for part in ("1,234", "env 3 was restarted", "learning", "0.00025", "veldt train 'it'\"'\"'s'"):
        assert part in page.text


def test_actors_have_a_bar_of_their_own(tmp_path: Path) -> None:
    run = make_run(tmp_path, "mine")
    assert "The actors'" not in report(tmp_path, run).text
    log = MetricsFile(run.path)
    shares = {"simulate": 0.625, "infer": 0.25, "replay": 0.0, "wait": 0.125}
    log.log(60_000, {f"time/actor_{stage}_share": share for stage, share in shares.items()})
    log.close()
    text = report(tmp_path, run).text
    assert "The learner's\nsimulate\n72%, 18s" in text
    assert "The actors'\nsimulate\n62%\ninfer\n25%\nwait\n12%" in text


def test_a_killed_run_is_reported_from_its_rows(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path, "mine", rows=40, finished=False))
    for part in ("Broke off at 66%", "seed 1", "device cpu", "precision fp32"):
        assert part in page.text
    assert "simulate\n75%, 12s" in page.text


def test_a_running_run_with_an_old_summary_is_shown_as_running(tmp_path: Path) -> None:
    run = make_run(tmp_path, "mine")
    with run.lock():
        page = report(tmp_path, run)
    assert "Running" in page.text


def test_a_run_without_any_metrics(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "empty")
    run.write_config({}, {}, [], {})
    page = report(tmp_path, run)
    assert "No episode has been finished yet" in page.text


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 5000])
def test_any_number_of_rows(tmp_path: Path, rows: int) -> None:
    page = report(tmp_path, make_run(tmp_path, "mine", rows=rows, finished=False))
    assert len(page.source) < 500_000, "curves must be thinned out"


def test_damaged_rows_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path, "mine", rows=3, finished=False)
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write(
            '{"step": "x", "seconds": null, "rollout/ep_return_mean": [1], "train/loss": {}}\n[1]\n{"step": 40, "ret'
        )
    (run.path / "events.jsonl").write_text('{"kind": 3}\n\x00\x00\n')
    report(tmp_path, run)


def test_seeds_are_averaged_and_other_runs_are_not(tmp_path: Path) -> None:
    seeds = [make_run(tmp_path, f"a-{seed}", seed=seed) for seed in (1, 2, 3)]
    other = make_run(tmp_path, "b", recipe="impala", learning={"rate": 1e-3}, finished=False)
    page = report(tmp_path, *seeds, other)
    for part in (
        "ppo (3 seeds)",
        "impala",
        "finished its steps: 3",
        "broke off: 1",
        "their mean, shaded: its 95% bootstrap interval",
    ):
        assert part in page.text
    differing = re.findall(r'<tr class="differs"><td><code>([^<]*)', page.source)
    assert differing == ["recipe", "learning.rate", "run.seed"]
    assert "5 settings are the same" in page.text


def test_runs_of_the_same_seed_are_shown_apart(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path, name, learning={"rate": rate}) for name, rate in (("slow", 1e-4), ("fast", 1e-3))
    ]
    groups = grouped([RunData.load(run.path) for run in runs])
    assert [(group.label, len(group.runs)) for group in groups] == [("slow", 1), ("fast", 1)]
    report(tmp_path, *runs)


def test_settings_other_than_the_seed_are_never_averaged(tmp_path: Path) -> None:
    few, many = ({"envs": {"num_envs": number}} for number in (8, 32))
    runs = [make_run(tmp_path, "few", given=few), make_run(tmp_path, "many", seed=2, given=many)]
    groups = grouped([RunData.load(run.path) for run in runs])
    assert [(group.label, len(group.runs)) for group in groups] == [("few", 1), ("many", 1)]


def test_what_is_logged_and_kept_of_checkpoints_does_not_keep_seeds_apart(tmp_path: Path) -> None:
    kept = {"run": {"checkpoint_replay": "none", "keep_checkpoints": 1, "log_norms": True}}
    runs = [make_run(tmp_path, "all"), make_run(tmp_path, "less", seed=2, given=kept)]
    assert [len(group.runs) for group in grouped([RunData.load(run.path) for run in runs])] == [2]


def test_each_environment_has_charts_of_its_own(tmp_path: Path) -> None:
    long = make_run(tmp_path, "long", rows=60)
    short = make_run(tmp_path, "short", rows=3, env="ALE/Breakout-v5")
    page = report(tmp_path, long, short)
    for name in ("CartPole-v1", "ALE/Breakout-v5"):
        assert f'<h2 class="environment">{name}</h2>' in page.source
    assert page.source.count("<h2>Return</h2>") == page.source.count("<h2>Learning</h2>") == 2
    assert "Environment" in page.text
    alone = report(tmp_path, long, make_run(tmp_path, "other", recipe="a2c"))
    assert alone.source.count("<h2>Return</h2>") == 1
    assert "Environment" not in alone.text and 'class="environment"' not in alone.source


def test_when_it_was_solved_is_a_column_only_where_there_was_a_target(tmp_path: Path) -> None:
    plain, other = make_run(tmp_path, "plain"), make_run(tmp_path, "other", seed=2)
    assert "Solved after" not in report(tmp_path, plain, other).text
    assert "Solved after" in report(tmp_path, plain, make_run(tmp_path, "aimed", until=475.0)).text


@pytest.mark.parametrize(
    ("reason", "steps", "expected"),
    [
        ("steps", 2048, "finished its steps"),
        ("until", 10, "solved"),
        ("interrupted", 19, "interrupted at 0%"),
        ("interrupted", 1999, "interrupted at 99%"),
        ("interrupted", 4000, "interrupted"),  # resumed with more steps than config.json has
        (None, 500, "broke off at 25%"),
        (None, float("nan"), "broke off"),
        ("", 500, "stopped at 25%"),
        ("", 2048, "finished its steps"),
    ],
)
def test_the_state_of_a_run(reason: str | None, steps: float, expected: str) -> None:
    assert status_of(False, reason, steps, 2000).text == expected
    assert status_of(True, reason, 500, 2000).text == "running at 25%"


def test_an_interrupted_run_is_not_called_finished(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path, "mine", rows=3, reason="interrupted"))
    assert "Interrupted at 5%" in page.text


def test_a_summary_from_before_a_resume_is_ignored(tmp_path: Path) -> None:
    run = make_run(tmp_path, "mine", rows=3, reason="interrupted")
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6000, "seconds": 3.0}\n')
    assert "Broke off at 10%" in report(tmp_path, run).text


def test_more_runs_than_colours(tmp_path: Path) -> None:
    report(tmp_path, *[make_run(tmp_path, f"run-{i}", rows=4) for i in range(10)])


def test_nothing_in_a_run_can_become_markup(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>&\"'"
    run = make_run(tmp_path, "<b>x", recipe=evil, env=evil, seed=evil, other={evil: evil}, finished=False)
    run.write_event(1, evil, evil)
    run.write_summary({"seconds_per_stage": {evil: 1.0}, "device": evil})
    page = report(tmp_path, run, make_run(tmp_path, "plain", rows=2))
    assert "<b>x" not in page.source
    report(tmp_path, run)


def test_a_missing_matplotlib_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, "mine", rows=3)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match="reports need the package matplotlib: pip install matplotlib"):
        write_report([run.path], tmp_path / "report.html")


def test_a_backend_that_is_not_installed_is_not_needed(tmp_path: Path) -> None:
    """Jupyter's own is set for whatever a notebook starts, also where Python has another environment."""
    program = (
        "import sys; from veldt.cli import main; main(['report', sys.argv[1]]); import matplotlib.pyplot"
    )
    environment = os.environ | {"MPLBACKEND": "no-such-backend"}
    run = make_run(tmp_path, "mine", rows=3).path
    command = [sys.executable, "-c", program, str(run)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and (run / "report.html").is_file()


def test_a_report_that_does_not_fit_asks_for_no_new_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = make_run(tmp_path, "mine", rows=3)
    monkeypatch.setattr(files, "write_all", full)
    with pytest.raises(VeldtError, match=r"the disk is full .*; make room .*, then write the report again$"):
        write_report([run.path], tmp_path / "report.html")


def test_a_path_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a veldt run"):
        write_report([tmp_path], tmp_path / "report.html")
    run = make_run(tmp_path, "mine", rows=3).path
    (run / "checkpoints").mkdir(exist_ok=True)
    with pytest.raises(UsageError, match=f"it is in the run {re.escape(str(run))}$"):
        write_report([run / "checkpoints"], tmp_path / "report.html")
    with pytest.raises(UsageError, match="at least one"):
        write_report([], tmp_path / "report.html")


def test_curves_are_compared_on_the_stretch_that_all_cover() -> None:
    x = np.arange(11.0)
    grid, values = on_common_grid([(x, x), (x[2:8], x[2:8] + 2)])
    assert (grid[0], grid[-1]) == (2.0, 7.0)
    np.testing.assert_allclose(values, [grid, grid + 2])
    assert len(on_common_grid([(x[:3], x[:3]), (x[5:], x[5:])])[0]) == 0
    assert len(on_common_grid([(x, x), (np.empty(0), np.empty(0))])[0]) == 0


def test_smoothing_keeps_length_and_level_and_drops_spikes() -> None:
    y = np.ones(300)
    y[100] = 1e6
    np.testing.assert_allclose(smoothed(y), np.ones(300))
    assert len(smoothed(np.empty(0))) == 0


def test_spikes_are_clipped_and_the_chart_notes_it() -> None:
    x, y = np.arange(200.0), np.sin(np.arange(200.0))
    y[50] = 1e5
    spiky, calm = Series(0, (x, smoothed(y)), [(x, y)]), Series(0, (x, np.sin(x)))
    assert clipped([spiky]) == 1e5
    assert clipped([calm]) is None
    assert line_chart([calm], "agent steps", 300, 200, "a").startswith("<svg")


@pytest.mark.parametrize("section", ["given", "command", "versions", "hardware"])
def test_a_section_that_veldt_did_not_write_is_refused(section: str, tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", rows=1)
    path = run.path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {section: "x"}))
    with pytest.raises(UsageError, match=f"has a section {section} that is not as veldt wrote it"):
        report(tmp_path, run)


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("/x/site-packages/veldt/__main__.py", "python -m veldt train ppo"),
        ("/x/bin/veldt", "veldt train ppo"),
        ("mine.py", "mine.py train ppo"),
    ],
)
def test_the_command_is_shown_as_it_was_typed(program: str, shown: str, tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", rows=1)
    path = run.path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"command": [program, "train", "ppo"]}))
    assert f"<pre>{shown}</pre>" in report(tmp_path, run).source


def test_letters_without_a_place_in_utf_8_are_replaced(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", rows=1, env="\ud800-v1")
    assert "?-v1" in report(tmp_path, run).text
