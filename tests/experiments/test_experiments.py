"""Experiments: their jobs are valid, they are continued and never mixed up, and their page shows what there is."""

from __future__ import annotations

import html
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from markupsafe import escape

from screens import console, said_on
from small_experiments import Printed, experiment, printed
from tiny_runs import TINY
from veldt.cli import main
from veldt.errors import UsageError, VeldtError
from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.machines import machines_of
from veldt.experiments.planning.estimate import probe_settings, total_seconds
from veldt.experiments.planning.memory import Memory
from veldt.experiments.results import Results, interval
from veldt.experiments.run import run_experiment
from veldt.experiments.scheduler import JobProgress, Scheduler
from veldt.experiments.side_by_side import last_sentence
from veldt.experiments.workspace import Workspace, seeds_of
from veldt.networks.own import NO_PARTS
from veldt.recipes import RECIPES
from veldt.recipes.configure import configure
from veldt.runtime.cores import allowed_cores
from veldt.systems.planning.checks import check_request

ALL = EXPERIMENTS.values()
OF_THE_PAPERS_GAMES = ("simulators", "minutes", "saturation")  # at the paper's scale, by its recipes


@pytest.mark.parametrize("scale", ["small", "paper"])
@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_the_jobs_of_every_experiment_have_names_of_their_own_and_valid_settings(
    one: Experiment, scale: Any
) -> None:
    given = ("breakout",) if one.name == "minatar" else ("ALE/Pong-v5", "CartPole-v1")
    if scale == "paper" and one.name in OF_THE_PAPERS_GAMES:
        with pytest.raises(UsageError, match=r"CartPole-v1', which is not an Atari game"):
            one.jobs(Request(scale, 2, given))
        given = ("ALE/Pong-v5",)
    for games in ((), given):
        jobs = one.jobs(Request(scale, 2, games))
        assert len({job.name for job in jobs}) == len(jobs) > 0
        kinds = {}
        for job in jobs:
            if isinstance(job, Training):
                assert not games or job.env.endswith(("Pong-v5", "CartPole-v1", ":breakout"))
                kinds[job.recipe, job.env.startswith("ALE/"), repr(job.settings)] = job
        for job in kinds.values():
            if RECIPES[job.recipe].base is not None and not job.env.startswith("ALE/"):
                with pytest.raises(UsageError, match=r"a paper's values for Atari games"):
                    configure(job.recipe, job.env, {}, None, NO_PARTS, job.settings)
                continue
            env = "CartPole-v1" if ":" in job.env else job.env  # MinAtar is not installed
            for settings in (job.settings, probe_settings(job)):
                check_request(configure(job.recipe, env, {}, None, NO_PARTS, settings), None)
        assert all(isinstance(line, str) and line for line in one.differs(Request(scale, 2, games)))


def test_alternating_simulators_are_two_at_least() -> None:
    words = [" ".join(job.words) for job in EXPERIMENTS["sampling"].jobs(Request("paper", 1))]
    assert any("--alternate off --num-envs 1 " in one for one in words)
    assert any("--alternate on --num-envs 2 " in one for one in words)
    assert not any("--alternate on --num-envs 1 " in one for one in words)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_every_experiment_draws_a_page_without_any_result(one: Experiment) -> None:
    exhibit = one.draw(Results(Request("small", 1), [], [], []))
    assert exhibit.says


def test_the_command_of_a_run() -> None:
    job = Training(
        group="a b", recipe="ppo", env="ALE/Pong-v5", seed=3, settings={"hidden": (8, 8), "compile": False}
    )
    words = job.command(Path("runs/x"))
    assert words[1:] == [
        *("-m", "veldt", "train", "ppo", "--env", "ALE/Pong-v5", "--seed", "3", "--run-dir", "runs/x"),
        *("--hidden", "8", "8", "--no-compile"),
    ]
    assert job.name == "ale-pong-v5-a-b-3"


def test_an_experiment_is_drawn_and_continued(tmp_path: Path) -> None:
    jobs = [
        Training(group="ppo", recipe="ppo", env="CartPole-v1", seed=seed, settings=TINY) for seed in (1, 2)
    ]
    mine, root = experiment(jobs), tmp_path / "out"
    screen = console()
    page = run_experiment(mine, Request("small", 2), root, screen)
    assert page == root / "experiment.html"
    text = page.read_text()
    assert "It says that." in text and "data:image/png;base64," in text and "All." in text
    recorded = [json.loads((root / "runs" / job.name / "config.json").read_text()) for job in jobs]
    assert [f"</code>, on {escape(machine)}.</p>" in text for machine in machines_of(recorded)] == [True]
    links = [html.unescape(link) for link in re.findall('href="(.*?)"', text)]
    assert len(links) == 4 and all((root / link).exists() for link in links), "two runs, and two CSV files"
    assert {file.name for file in root.iterdir()} >= {
        "learning-curves.png",
        "scores.csv",
        "curves.csv",
        "speeds.json",
    }
    assert "mine: 2 runs, 2 to do, 512 steps" in said_on(screen) and "2/2 cartpole-v1-ppo-" in said_on(screen)

    times = [(root / "runs" / job.name / "summary.json").stat().st_mtime_ns for job in jobs]
    (root / "runs" / jobs[1].name / "summary.json").write_text('{"reason": "interrupted"}')
    screen = console()
    run_experiment(mine, Request("small", 2), root, screen)
    assert "2 runs, 1 done, 1 to do" in said_on(screen)
    assert (root / "runs" / jobs[0].name / "summary.json").stat().st_mtime_ns == times[0]
    assert json.loads((root / "runs" / jobs[1].name / "summary.json").read_text())["reason"] == "steps"


def test_a_run_of_a_function_is_continued_on_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On which the user has not trained with that function yet."""
    job = Training(group="ppo", recipe="ppo", env="environments:lopsided_box", seed=1, settings=TINY)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    assert main(job.command(tmp_path / "run")[3:]) is None
    (tmp_path / "run" / "summary.json").write_text('{"reason": "interrupted"}')
    done = subprocess.run(
        [*job.resume_command(tmp_path / "run"), "--steps", "512"],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "there")},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request("small", 1), "--seeds 2, and 1 is asked now"),
        (Request("paper", 2), "--scale small, and paper is asked now"),
        (Request("small", 2, ("ALE/Pong-v5",)), "was made without --games, and ALE/Pong-v5 is asked now"),
    ],
)
def test_an_experiment_is_not_continued_with_other_settings(
    request_: Request, said: str, tmp_path: Path
) -> None:
    mine = experiment([])
    first = Workspace(tmp_path / "out", mine, Request("small", 2))
    first.open()
    first.begin()
    first.close()
    with pytest.raises(UsageError, match=said):
        Workspace(tmp_path / "out", mine, request_).open()


def test_more_seeds_add_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To those that are done; and without --seeds, an experiment keeps the number that it has."""
    jobs = [printed(f"seed {seed}", "print('{}')") for seed in range(1, 4)]
    mine, root = experiment(jobs, jobs_of=lambda request: jobs[: request.seeds]), tmp_path / "a b"
    run_experiment(mine, Request("small", 2), root, console())
    screen = console()
    run_experiment(mine, Request("small", 3), root, screen)
    assert "3 runs, 2 done, 1 to do" in said_on(screen)
    assert json.loads((root / "experiment.json").read_bytes())["seeds"] == seeds_of(root) == 3
    assert f"--seeds 3 --out &#39;{root}&#39;" in (root / "experiment.html").read_text()
    with pytest.raises(UsageError, match="--seeds 3, and 2 is asked now"):
        run_experiment(mine, Request("small", 2), root, console())

    asked: list[Request] = []
    monkeypatch.setattr(
        "veldt.experiments.run.run_experiment", lambda _, request, *__, **___: asked.append(request)
    )
    for out in (root, tmp_path / "nowhere"):
        assert main(["experiment", "precision", "--out", str(out)]) is None
    assert [request.seeds for request in asked] == [3, 5]


def test_the_command_of_a_page_has_no_seeds_where_these_are_refused(tmp_path: Path) -> None:
    mine = experiment([printed("works", "print('{}')")], repeats=False)
    page = run_experiment(mine, Request("small", 1), tmp_path / "out", console())
    assert page is not None and "mine --scale small --out" in page.read_text()


def test_a_plan_alone_decides_nothing(tmp_path: Path) -> None:
    mine = experiment([printed("works", "print('{}')")])
    run_experiment(mine, Request("small", 2), tmp_path / "out", console(), plan_only=True)
    assert run_experiment(mine, Request("small", 3), tmp_path / "out", console())


def test_two_commands_do_not_work_in_one_directory(tmp_path: Path) -> None:
    first = Workspace(tmp_path / "out", experiment([]), Request("small", 1))
    first.open()
    with pytest.raises(UsageError, match="another veldt experiment works in"):
        Workspace(tmp_path / "out", experiment([]), Request("small", 1)).open()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--out .*file is a file: name a new directory"):
        Workspace(tmp_path / "file", experiment([]), Request("small", 1)).open()


def test_runs_of_one_name_are_refused(tmp_path: Path) -> None:
    jobs = [printed("same", "print('{}')")] * 2
    with pytest.raises(UsageError, match="two runs would have the name same-nan"):
        run_experiment(experiment(jobs), Request("small", 1), tmp_path / "out", console())


def test_a_run_directory_with_files_of_the_users_fails_alone(tmp_path: Path) -> None:
    job = Training(group="ppo", recipe="ppo", env="CartPole-v1", seed=1, settings=TINY)
    works = printed("works", "print('{}')")
    mine, root = experiment([job, works]), tmp_path / "out"
    (root / "runs" / job.name).mkdir(parents=True)
    (root / "runs" / job.name / "mine.txt").write_text("kept")
    workspace = Workspace(root, mine, Request("small", 1))
    progress = Scheduler(workspace, [job, works], lambda _: None, 60.0).run()
    assert progress.done == [works] and list(progress.failed) == [job]
    assert (root / "runs" / job.name / "mine.txt").read_text() == "kept"


@pytest.mark.parametrize(
    ("code", "said", "why"),
    [
        (-9, "step 5/10", "its process was killed by SIGKILL (by hand, or by the system for lack of memory)"),
        (-9, "veldt: the disk is full\nstep 5/10", "the disk is full"),
        (1, "step 5/10\nveldt: the disk is full\nmore", "the disk is full"),
        (1, "step 5/10\nTypeError", "TypeError"),
    ],
)
def test_why_a_run_has_failed(code: int, said: str, why: str) -> None:
    assert last_sentence(io.BytesIO(said.encode()), code) == why


def test_what_runs_ends_with_the_command_however_it_ends(tmp_path: Path) -> None:
    """Two processes, owned by one that is killed."""
    code = (
        "import sys, time, tempfile, os\n"
        "from veldt.experiments.owned_process import OwnedProcess\n"
        "output = tempfile.TemporaryFile()\n"
        "sleeps = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "both = [OwnedProcess(sleeps, output, output) for _ in range(2)]\n"
        "print(*[one._process.pid for one in both], flush=True)\n"
        "time.sleep(60)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pids = [int(word) for word in owner.stdout.readline().split()]
    assert len(pids) == 2 and all(map(psutil.pid_exists, pids))
    owner.kill()
    owner.communicate()
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=20)
    assert not alive


def test_a_directory_of_the_users_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(
        UsageError, match=r"has files .thesis.txt. and is no experiment: name a new directory"
    ):
        Workspace(tmp_path, experiment([]), Request("small", 1)).open()
    (tmp_path / "experiment.json").write_text("[1]")
    with pytest.raises(UsageError, match=r"is damaged .not a JSON object."):
        Workspace(tmp_path, experiment([]), Request("small", 1)).open()


def test_a_job_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    jobs = [
        printed("fails", "import sys; sys.exit('veldt: it has no licence')"),
        printed("prints no JSON", "print('hello')"),
        printed("works", "print('{\"sps\": 5}')"),
    ]
    mine, request = experiment(jobs), Request("small", 1)
    screen = console()
    with pytest.raises(VeldtError, match=r"2 of 3 runs failed, fails-nan first: it has no licence"):
        run_experiment(mine, request, tmp_path / "out", screen)
    assert "printed no JSON" in said_on(screen)
    results = Workspace(tmp_path / "out", mine, request).results(jobs)
    assert [measured.values for measured in results.measured] == [{"sps": 5}]
    assert results.missing == ["fails-nan", "prints-no-json-nan"]
    assert (tmp_path / "out" / "experiment.html").exists()


def test_a_measurement_is_a_json_object(tmp_path: Path) -> None:
    job = printed("list", "")
    workspace = Workspace(tmp_path / "out", experiment([job]), Request("small", 1))
    with pytest.raises(VeldtError, match=r"list-nan printed no JSON object: \[1\]"):
        workspace.keep(job, "[1]\n")
    assert not workspace.is_done(job)


@pytest.mark.parametrize(("each", "at_once"), [(0, 3), (6, 1)])
def test_jobs_run_side_by_side_on_cores_of_their_own_as_far_as_the_memory_allows(
    tmp_path: Path, each: int, at_once: int
) -> None:
    code = "import os, json; print(json.dumps({'cores': sorted(os.sched_getaffinity(0))}))"
    jobs = [printed(f"{index}", code) for index in range(3)]
    memory = Memory(dict.fromkeys(jobs, each), available=10)
    mine, request = experiment(jobs), Request("small", 1)
    workspace = Workspace(tmp_path / "out", mine, request)
    workspace.open()
    most = 0

    def show(progress: JobProgress) -> None:
        nonlocal most
        most = max(most, len(progress.started))

    scheduler = Scheduler(workspace, jobs, show, 60.0, memory)
    free = len(allowed_cores())
    progress = scheduler.run()
    assert len(progress.done) == 3 and most == min(at_once, free)
    cores = [measured.values["cores"] for measured in workspace.results(jobs).measured]
    assert all(len(own) == 1 for own in cores)


def test_no_job_is_started_after_the_budget(tmp_path: Path) -> None:
    jobs = [printed("late", "print('{}')")]
    workspace = Workspace(tmp_path / "out", experiment(jobs), Request("small", 1))
    workspace.open()
    progress = Scheduler(workspace, jobs, lambda _: None, -1.0).run()
    assert progress.waiting == jobs and not progress.done
    workspace.close()
    with pytest.raises(
        UsageError, match=r"--budget 0.0001 hours is too small for one run, which takes at least"
    ):
        run_experiment(experiment(jobs), Request("small", 1), tmp_path / "out", console(), budget_hours=1e-4)


def test_what_is_not_installed_is_named(tmp_path: Path) -> None:
    mine = experiment([], needs={"nosuchmodule": "pip install nosuch"})
    with pytest.raises(UsageError, match="needs nosuchmodule, which is not installed: pip install nosuch"):
        run_experiment(mine, Request("small", 1), tmp_path / "out", console())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("experiment simulater", "no experiment 'simulater' (did you mean 'simulators'?)"),
        ("experiment", "no experiment is named: `veldt experiment --list` shows all"),
        ("experiment sampling --seeds 2", "--seeds has no effect: sampling measures speed"),
        ("experiment norms --budget nan", "--budget is nan: it must be a number of hours, more than 0"),
        ("experiment norms --seeds 0", "--seeds is 0: it must be at least 1"),
        ("experiment norms --budget 0", "--budget is 0: it must be a number of hours, more than 0"),
    ],
)
def test_wrong_arguments_are_one_sentence(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words.split())
    assert stopped.value.code == 2 and said in capsys.readouterr().err


def test_seconds_of_jobs_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veldt.experiments.planning.estimate.allowed_cores", lambda: [0, 1])
    one, both = printed("one", ""), Printed(group="both", words=(), seconds=1.0, cores=0)
    assert total_seconds({one: 1.0, printed("two", ""): 1.0, printed("three", ""): 1.0}) == 2.0
    assert total_seconds({one: 1.0, both: 1.0}) == 2.0
    # The third and the fourth wait for the end of the longest, which has most of the memory.
    jobs = {printed(f"{needed}", ""): needed for needed in (9, 1, 2, 3)}
    seconds = dict(zip(jobs, (5.0, 1.0, 1.0, 2.0), strict=True))
    assert total_seconds(seconds, Memory(jobs, available=10)) == 7.0


def test_an_interval_is_that_of_the_mean() -> None:
    mean, low, high = interval([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5 and 1.0 <= low < 2.5 < high <= 4.0
    assert interval([2.0])[0] == 2.0 and np.isnan(interval([2.0])[1:]).all()
    assert np.isnan(interval([])).all()
