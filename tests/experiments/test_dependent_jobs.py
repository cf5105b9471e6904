"""Evaluations of trained runs from recorded starts: jobs that wait for their training, and end with it."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from screens import console, said_on
from small_experiments import experiment, printed, training
from starts_files import PONG, starts_in, write
from veldt.errors import UsageError, VeldtError
from veldt.experiments.experiment import Evaluation, Job, Request, Training, needed_by, with_evaluations
from veldt.experiments.live import LiveTable
from veldt.experiments.planning.estimate import total_seconds
from veldt.experiments.planning.memory import Memory, memory_for
from veldt.experiments.planning.plan import plan_table
from veldt.experiments.recorded_starts import RecordedStarts
from veldt.experiments.run import run_experiment
from veldt.experiments.scheduler import JobProgress, Scheduler
from veldt.experiments.workspace import Workspace
from veldt.recipes import Recipe, register_recipe

REQUEST = Request("small", 1)
FROM_STARTS = '{"ep_return_mean": 3.5}'


class Quick(Training):
    """A training that only writes the summary of its run; one of the group "fails" fails."""

    def command(self, directory: Path) -> list[str]:
        if self.group == "fails":
            return [sys.executable, "-c", "import sys; sys.exit('veldt: it has no licence')"]
        code = (
            "import pathlib, sys, time; time.sleep(0.3); path = pathlib.Path(sys.argv[1]); path.mkdir(parents=True);"
            '(path / \'summary.json\').write_text(\'{"reason": "steps", "steps": 1}\')'
        )
        return [sys.executable, "-c", code, str(directory)]


class QuickEvaluation(Evaluation):
    """An evaluation that prints a score if its run is there."""

    def command(self, run: Path) -> list[str]:
        code = f"import pathlib, sys; assert pathlib.Path(sys.argv[1], 'summary.json').exists(); print('{FROM_STARTS}')"
        return [sys.executable, "-c", code, str(run)]


@pytest.fixture
def starts(tmp_path: Path) -> RecordedStarts:
    (only,) = starts_in(write(tmp_path / "starts").parent, PONG)
    return only


def pairs(starts: RecordedStarts, *groups: str) -> list[Job]:
    """A training and its evaluation of each group."""
    jobs: list[Job] = []
    for group in groups:
        job = Quick(group=group, recipe="ppo", env=PONG, seed=1, settings={"steps": 9})
        jobs += [job, QuickEvaluation(of=job, starts=starts)]
    return jobs


def workspace_of(tmp_path: Path, jobs: list[Job]) -> Workspace:
    workspace = Workspace(tmp_path / "out", experiment(jobs), REQUEST)
    workspace.open()
    return workspace


def test_each_run_is_evaluated_after_it_is_trained_and_not_before(
    tmp_path: Path, starts: RecordedStarts
) -> None:
    """In any order of the jobs."""
    jobs = pairs(starts, "a", "b", "c")
    workspace = workspace_of(tmp_path, jobs)

    def show(progress: JobProgress) -> None:
        for job in progress.started:
            needed = needed_by(job)
            assert needed is None or (needed in progress.done and workspace.is_done(needed))

    scheduler = Scheduler(workspace, jobs[::-1], show, 60.0)
    progress = scheduler.run()
    assert len(progress.done) == 6 and not progress.failed and not progress.waiting
    results = workspace.results(jobs)
    assert [one.score for one in results.evaluated] == [3.5] * 3 and not results.missing
    assert list(results.from_starts()) == [(PONG, group) for group in "abc"]
    assert json.loads((tmp_path / "out" / "measured" / f"{jobs[1].name}.json").read_text()) == {
        "ep_return_mean": 3.5
    }


def test_an_evaluation_fails_with_its_training_and_the_others_go_on(
    tmp_path: Path, starts: RecordedStarts
) -> None:
    jobs = pairs(starts, "fails", "works")
    workspace = workspace_of(tmp_path, jobs)
    progress = Scheduler(workspace, jobs, lambda _: None, 60.0).run()
    assert set(progress.done) == set(jobs[2:]) and not progress.waiting
    assert list(progress.failed.items()) == [
        (jobs[0], "it has no licence"),
        (jobs[1], f"the run {jobs[0].name}, which it evaluates, has failed"),
    ]
    assert workspace.results(jobs).missing == [jobs[0].name, jobs[1].name]


def test_an_evaluation_fails_where_its_training_cannot_be_begun(
    tmp_path: Path, starts: RecordedStarts
) -> None:
    jobs = pairs(starts, "a")
    workspace = workspace_of(tmp_path, jobs)
    (workspace.root / "runs").mkdir()
    (workspace.root / "runs" / jobs[0].name).write_text("a file of the user's")
    progress = Scheduler(workspace, jobs, lambda _: None, 60.0).run()
    assert list(progress.failed) == jobs and not progress.waiting


def test_evaluations_that_are_left_are_made_by_the_next_command(
    tmp_path: Path, starts: RecordedStarts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interrupt between a training and its evaluation, and after a budget that was spent there."""
    jobs = pairs(starts, "a")
    workspace = workspace_of(tmp_path, jobs)

    def interrupt(progress: JobProgress) -> None:
        if jobs[0] in progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Scheduler(workspace, jobs, interrupt, 60.0).run()
    assert [workspace.is_done(job) for job in jobs] == [True, False]
    late = Scheduler(workspace, jobs, lambda _: None, -1.0).run()
    assert late.waiting == jobs[1:] and not late.failed
    trained = (workspace.run_path(jobs[0]) / "summary.json").stat().st_mtime_ns  # type: ignore[arg-type]
    assert Scheduler(workspace, jobs, lambda _: None, 60.0).run().done == jobs
    assert (workspace.run_path(jobs[0]) / "summary.json").stat().st_mtime_ns == trained  # type: ignore[arg-type]


def test_a_file_that_is_changed_meanwhile_fails_what_needs_it(tmp_path: Path, starts: RecordedStarts) -> None:
    jobs = pairs(starts, "a")
    workspace = workspace_of(tmp_path, jobs)
    write(starts.path.parent, number=3)
    progress = Scheduler(workspace, jobs, lambda _: None, 60.0).run()
    assert progress.done == jobs[:1]
    assert progress.failed[jobs[1]].endswith(
        "was changed after the experiment had begun: put back what it was"
    )
    starts.path.unlink()
    with pytest.raises(VeldtError, match=r"Pong.safetensors cannot be read any more: No such file"):
        workspace.command(jobs[1])


def test_what_an_evaluation_prints_is_an_object(tmp_path: Path, starts: RecordedStarts) -> None:
    _, job = pairs(starts, "a")
    workspace = workspace_of(tmp_path, [job])
    with pytest.raises(VeldtError, match=r"the evaluation .*-from-starts printed no JSON object: 3"):
        workspace.keep(job, "3")  # type: ignore[arg-type]
    assert not workspace.is_done(job)


def test_the_command_of_an_evaluation(starts: RecordedStarts) -> None:
    job = Evaluation(of=training(env=PONG), starts=starts)
    assert job.command(Path("out/runs/x"))[1:] == [
        *("-m", "veldt", "evaluate", "out/runs/x", "--starts", str(starts.path), "--json")
    ]
    register_recipe(Recipe("evaluated", "ppo", "synchronous", summary="mine", atari={}, small={}))
    own = Evaluation(of=training(env=PONG, recipe="evaluated"), starts=starts)
    assert own.command(Path("x"))[-2:] == ["--plugin", __name__]
    assert job.name == "ale-pong-v5-g-1-from-starts" and (job.chart, job.group) == (PONG, "g")


def test_only_runs_with_starts_of_their_game_are_evaluated(starts: RecordedStarts) -> None:
    trainings = [training(env=env, seed=seed) for env in (PONG, "CartPole-v1") for seed in (1, 2)]
    jobs = with_evaluations(trainings, Request("small", 2, starts=(starts,)))
    assert [getattr(needed_by(job), "seed", None) for job in jobs] == [None, 1, None, 2, None, None]
    assert [job for job in jobs if isinstance(job, Training)] == trainings
    assert with_evaluations(trainings, REQUEST) == trainings


def naive_total(seconds: dict[Job, float], cores: int) -> float:
    """Second by second: the first job that fits and whose training is done is begun, until the first does not fit."""
    waiting, running, now = list(seconds), {}, 0
    while waiting or running:
        running = {job: end for job, end in running.items() if end > now}
        ready = [job for job in waiting if needed_by(job) not in [*waiting, *running]]
        for job in ready:
            if sum(one.cores or cores for one in running) + (job.cores or cores) > cores:
                break
            running[job] = now + seconds[job]
            waiting.remove(job)
        now += 1
    return now - 1


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_seconds_of_jobs_that_wait_for_others(
    starts: RecordedStarts, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr("veldt.experiments.planning.estimate.allowed_cores", lambda: list(range(cores)))
    for lengths in ((4, 3, 2, 1, 5), (1, 1, 9, 2, 2), (2, 7, 1, 7, 3)):
        a, a_from, b, b_from = pairs(starts, "a", "b")
        every = Quick(group="all", recipe="ppo", env=PONG, seed=1, settings={"steps": 9}, cores=0)
        for order in ((a, a_from, b, b_from, every), (a_from, every, b_from, a, b)):
            seconds = dict(zip(order, map(float, lengths), strict=True))
            assert total_seconds(seconds) == naive_total(seconds, cores)
    assert total_seconds({a_from: 3.0}) == 3.0  # its training is done, or its speed is not known
    needed = Memory({a: 6, b: 6, a_from: 1, b_from: 1}, available=10)
    if cores > 1:
        assert total_seconds({a: 2.0, a_from: 3.0, b: 2.0, b_from: 1.0}, needed) == 5.0


def test_the_plan_has_a_row_for_evaluations(
    tmp_path: Path, starts: RecordedStarts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the runs are trained already; a budget that is too small for a training is refused."""
    monkeypatch.setattr("veldt.experiments.planning.estimate.allowed_cores", lambda: [0])
    monkeypatch.setattr("veldt.experiments.run.measure_speeds", lambda *_: defaultdict(lambda: 1_000.0))
    trainings = [training(env=PONG, seed=seed, settings={"steps": 3_600_000}) for seed in (1, 2, 3)]
    jobs = with_evaluations(trainings, Request("small", 3, starts=(starts,)))
    evaluations = [job for job in jobs if isinstance(job, Evaluation)]
    seconds = 8.0 + 2 * (5 + 5) / 500.0
    assert {job.seconds for job in evaluations} == {seconds}
    screen = console()
    run_experiment(experiment(jobs), Request("small", 3), tmp_path / "out", screen, plan_only=True)
    lines = [" ".join(line.split()) for line in said_on(screen).splitlines()]
    assert lines[0] == "mine: 6 runs, 6 to do, 10,800,000 steps"
    assert lines[2:4] == [
        "ppo ALE/Pong-v5 1-3 3 3.6M 1 1,000 3",
        "evaluate ppo ALE/Pong-v5 from recorded starts 1-3 3 1 0.0067",
    ]
    assert lines[4].startswith("6 runs, about 3 hours (3h 00m) on this machine")
    table = plan_table(dict.fromkeys(evaluations, seconds), {})
    assert [list(column.cells) for column in table.columns][:4] == [
        ["evaluate ppo"],
        [PONG],
        ["from recorded starts"],
        ["1-3"],
    ]
    with pytest.raises(
        UsageError, match=r"--budget 0.5 hours is too small for one run, which takes about 1 "
    ):
        run_experiment(experiment(jobs), Request("small", 3), tmp_path / "b", console(), budget_hours=0.5)
    assert memory_for(evaluations, {}).needed.keys() == set(evaluations)


def test_the_live_table_says_what_is_evaluated(tmp_path: Path, starts: RecordedStarts) -> None:
    jobs = pairs(starts, "a")
    table = LiveTable(console(), workspace_of(tmp_path, jobs), jobs)
    assert [table._how_far(job)[0] for job in (*jobs, printed("m", ""))] == [
        "starting",
        "evaluating",
        "measuring",
    ]
