"""What the experiments of the catalogue say and draw of given results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veldt
from veldt.experiments.catalogue import EXPERIMENTS, gorila, sampling, throughput
from veldt.experiments.experiment import Measurement, Request, Training
from veldt.experiments.figures import Surface, surfaces
from veldt.experiments.results import FinishedRun, Measured, Results
from veldt.experiments.speed import Speed, speed_of, speed_while_learning

GAMES = ("CartPole-v1", "Acrobot-v1")


def results_of(name: str, rows: Callable[[Training], list[dict[str, Any]]], seconds: Any) -> Results:
    """Results of all jobs on two games; `rows` are the metrics of a run, and `seconds` is how long it took."""
    request, runs = Request("small", 1, GAMES), []
    for job in EXPERIMENTS[name].jobs(request):
        assert isinstance(job, Training)
        run = FinishedRun(job, Path())
        vars(run).update(
            summary={"steps": 1_000, "seconds": seconds(job)},
            rows=rows(job),
            episodes=(np.array([500.0, 1_000.0]), np.array([1.0, 2.0])),
        )
        runs.append(run)
    return Results(request, runs, [], [])


def fastest_with_2_and_4(job: Training) -> float:
    chosen = (job.settings.get("predictors"), job.settings.get("trainers"))
    return (1.0 if chosen == (2, 4) else 2.0) * (1.0 if job.env == "CartPole-v1" else 10.0)


def updates(job: Training) -> list[dict[str, Any]]:
    """A hundred updates in the time of `fastest_with_2_and_4`, by 16 predictions each, and a start of ten seconds."""
    seconds = fastest_with_2_and_4(job)
    return [
        {
            "step": 1_600 * part,
            "seconds": 10.0 + seconds * part,
            "train/updates": 100 * part + 1,
            "time/predictions_per_second": 1_600 / seconds * part,
        }
        for part in (0, 1)
    ]


def test_each_game_and_network_has_a_surface_of_its_own() -> None:
    exhibit = EXPERIMENTS["ga3c-network"].draw(results_of("ga3c-network", updates, fastest_with_2_and_4))
    tps, sps = (
        [one for one in drawing.figure.axes if one.get_xlabel() == "predictors"]
        for drawing in exhibit.drawings
    )
    assert len(tps) == len(sps) == 4
    for axes, best in ((tps[0], "100"), (sps[0], "1,600")):
        assert sorted(text.get_text() for text in axes.texts).count(best) == 1, "that of 2 and 4"
    for game, trainings, steps in (("CartPole-v1", "100.0", "1,600"), ("Acrobot-v1", "10.0", "160.0")):
        assert (
            f"{game}, large network: the fastest pair (2 predictors, 4 trainers) makes {trainings} trainings per "
            f"second, and {steps} steps; the slowest" in exhibit.says
        )
    assert ". None of these runs used a GPU. The paper" in exhibit.says
    speeds = {row[:2]: row[2:] for row in exhibit.tables[0].rows}
    assert speeds["CartPole-v1, small network", "2 predictors, 4 trainers"] == (
        "1",
        "100.0",
        "1,600",
        "1,600",
    )


def test_the_tuner_s_path_lies_on_the_surface_of_its_game() -> None:
    path = [(1, 1), (1, 1), (2, 1), (2, 2)]

    def rows(job: Training) -> list[dict[str, Any]]:
        return [
            {"step": 16 * step, "seconds": 2.0 * step, "train/updates": 100 * step + 1}
            | {"system/predictors": p, "system/trainers": t}
            for step, (p, t) in enumerate(path)
        ]

    def all_rows(job: Training) -> list[dict[str, Any]]:
        return rows(job) if job.group == "tuned" else updates(job)

    exhibit = EXPERIMENTS["ga3c-tuner"].draw(results_of("ga3c-tuner", all_rows, fastest_with_2_and_4))
    charts = [one for one in exhibit.drawings[0].figure.axes if one.get_xlabel() == "predictors"]
    assert [one.get_title() for one in charts] == list(GAMES)
    for chart in charts:
        xs, ys = np.asarray(chart.lines[0].get_xdata()), np.asarray(chart.lines[0].get_ydata())
        assert xs.tolist() == [0, 1, 1] and ys.tolist() == [0, 0, 1]
    assert "Acrobot-v1: the fastest pair (2 predictors, 4 trainers) makes 10.0 trainings" in exhibit.says
    assert "; the runs with the tuner make 50.0 trainings per second on Acrobot-v1" in exhibit.says


@pytest.mark.parametrize("name", ["ga3c-network", "ga3c-tuner"])
def test_ga3c_has_charts_of_the_gpu_beside_those_of_the_processor(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request("small", 2)

    def jobs(has_gpu: bool) -> list[Training]:
        monkeypatch.setattr("torch.cuda.is_available", lambda: has_gpu)
        return [job for job in EXPERIMENTS[name].jobs(request) if isinstance(job, Training)]

    processor, both = jobs(False), jobs(True)
    assert not any("device" in job.settings for job in processor)
    of_device = {
        device: {job.name for job in both if job.settings["device"] == device} for device in ("cpu", "cuda")
    }
    assert of_device["cpu"] == {job.name for job in processor}
    assert len(of_device["cuda"]) == len(processor) and not of_device["cpu"] & of_device["cuda"]
    gpu_charts = {job.chart for job in both if job.settings["device"] == "cuda"}
    assert gpu_charts == {f"{job.chart}, on the GPU" for job in processor}
    assert (
        "processor, and in charts of its own on its GPU only where" in EXPERIMENTS[name].differs(request)[0]
    )
    drawn = EXPERIMENTS[name].draw(results_of(name, updates, fastest_with_2_and_4))
    assert "used a GPU" not in drawn.says
    titles = [one.get_title() for one in drawn.drawings[0].figure.axes if one.get_xlabel() == "predictors"]
    assert len([title for title in titles if title.endswith("on the GPU")]) == len(titles) / 2


def test_the_cosines_of_several_games_are_not_mixed() -> None:
    def rows(job: Training) -> list[dict[str, Any]]:
        return [{"train/gradient_cosine": (0.7 if job.env == "CartPole-v1" else 0.9) + job.x / 10_000}]

    says = EXPERIMENTS["saturation"].draw(results_of("saturation", rows, lambda job: 1.0)).says
    assert "0.702 with 16 simulators and 0.726 with 256 simulators on CartPole-v1" in says
    assert "0.902 with 16 simulators and 0.926 with 256 simulators on Acrobot-v1" in says
    assert says.endswith("cannot be seen here because one seed has no interval.")


def test_the_norms_are_those_of_the_first_and_the_last_layer_of_the_network() -> None:
    """In whatever order they were logged, and also if the last row, after no update, has none."""
    layers = ["torso.layers.0.weight", "advantage.hidden.weight", "advantage.last.weight"]

    def rows(job: Training) -> list[dict[str, Any]]:
        measured = {
            f"norms/{quantity}/{name}": float(number)
            for quantity in ("weights", "gradient", "step")
            for number, name in enumerate([*sorted(layers), "advantage.norm.weight"])
        }
        return [{"step": 10, **measured}, {"step": 20, **measured}, {"step": 20}]

    results = results_of("norms", rows, lambda job: 1.0)
    for run in results.runs:
        vars(run)["layers"] = dict.fromkeys(layers, 2)
    _, *drawings = EXPERIMENTS["norms"].draw(results).drawings
    for drawing in drawings:
        titles = [chart.get_title() for chart in drawing.figure.axes if chart.get_visible()]
        assert titles[:2] == [f"adam on CartPole-v1, {name}" for name in (layers[0], layers[-1])]
        assert len(titles) == 2 * 2 * len(GAMES)
        ends = [(line.get_xdata()[0], line.get_xdata()[-1]) for line in drawing.figure.axes[0].lines]
    assert ends == [(10, 20)] * 3


def test_the_norms_of_a_network_with_convolutions_are_those_of_the_paper_s_layers() -> None:
    """The first convolution and the first linear layer, whose last one is not drawn."""
    layers = {"torso.0.weight": 4, "torso.1.weight": 4, "hidden.weight": 2, "last.weight": 2}

    def rows(job: Training) -> list[dict[str, Any]]:
        measured = {f"norms/{one}/{name}": 1.0 for one in ("weights", "gradient", "step") for name in layers}
        return [{"step": step, **measured} for step in (10, 20)]

    results = results_of("norms", rows, lambda job: 1.0)
    for run in results.runs:
        vars(run)["layers"] = layers
    _, *drawings = EXPERIMENTS["norms"].draw(results).drawings
    for drawing in drawings:
        titles = {
            chart.get_title().partition(", ")[2] for chart in drawing.figure.axes if chart.get_visible()
        }
        assert titles == {"torso.0.weight", "hidden.weight"}
    for games, said in ((GAMES, True), (("ALE/Qbert-v5",), False)):
        differs = " ".join(EXPERIMENTS["norms"].differs(Request("small", 1, games)))
        assert ("the first and the last layer are drawn" in differs) == said


def test_the_layers_of_a_run_are_in_the_order_of_its_network(tmp_path: Path) -> None:
    settings = {"steps": 64, "num_envs": 4, "hidden": (8, 8), "threads": 1, "log": "none", "quiet": True}
    path = veldt.train("c51", env="CartPole-v1", run_dir=tmp_path / "run", **settings).path
    job = Training(group="c51", recipe="c51", env="CartPole-v1", seed=1)
    layers = ["torso.layers.0.weight", "advantage.hidden.weight", "advantage.last.weight"]
    assert list(FinishedRun(job, path).layers.items()) == [(name, 2) for name in layers]


def test_a_path_between_the_numbers_of_a_surface_is_drawn_between_them() -> None:
    surface = Surface(np.zeros((2, 3)), (1, 4), (1, 2, 4), {"run": [(2.5, 3.0), (8.0, 8.0)]})
    (chart, _) = surfaces("A surface", "", {"a": surface}, "x", "y").figure.axes
    line = chart.lines[0]
    assert np.asarray(line.get_xdata()).tolist() == [1.5, 2.0]
    assert np.asarray(line.get_ydata()).tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("rows", "whole", "learning"),
    [
        ([], None, None),
        ([(0, 0, 0), (10, 2, 0)], Speed(5.0, 2.0), None),
        ([(0, 0, 0), (10, 2, 0), (20, 3, 1)], Speed(20 / 3, 3.0), None),
        ([(0, 0, 0), (10, 2, 1), (40, 4, 2)], Speed(10.0, 4.0), Speed(15.0, 2.0)),
        ([(10, 2, 1), (10, 4, 2)], None, None),
    ],
)
def test_the_speed_of_a_run(
    rows: list[tuple[int, int, int]], whole: Speed | None, learning: Speed | None
) -> None:
    logged = [{"step": step, "seconds": seconds, "train/updates": updates} for step, seconds, updates in rows]
    assert speed_of(logged) == whole and speed_while_learning(logged) == learning


def test_the_speed_of_a_finished_run_is_without_its_start() -> None:
    (job, *_) = EXPERIMENTS["ga3c-tuner"].jobs(Request("small", 1, ("CartPole-v1",)))
    assert isinstance(job, Training)
    run = FinishedRun(job, Path())
    steps, seconds = (1_000, 2_000, 5_000), (3.0, 4.0, 5.0)
    rows = [
        {"step": step, "seconds": at, "train/updates": 1} for step, at in zip(steps, seconds, strict=True)
    ]
    vars(run).update(summary={"steps": 5_000, "seconds": 5.0}, rows=rows)
    assert run.speed == 2_000.0
    vars(run).update(rows=rows[:1])
    assert run.speed == 1_000.0, "that of the whole run"


@pytest.mark.parametrize("games", [("CartPole-v1",), GAMES], ids=["a game", "two games"])
def test_sampling_draws_samplers_and_resets_beside_each_other(
    games: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One group of a chart has all lines of the bench; samplers and resets are lines of one chart."""
    monkeypatch.setattr(sampling, "allowed_cores", lambda: [0, 1])
    request, measured = Request("small", 1, games), []
    for job in EXPERIMENTS["sampling"].jobs(request):
        assert isinstance(job, Measurement)
        words = " ".join(job.words)
        rows = ["simulate, network-ready, no inference", "inference alone", "sampling"]
        speeds = dict(zip(rows, [300.0, 600.0, 180.0], strict=True))
        if "--samplers" in words:
            speeds = {"samplers together": 120.0 if "--barrier" in words else 160.0}
        if "--resets" in words:
            assert job.words[1] == "training"
            speeds |= {"training": 90.0 if "--resets wait" in words else 100.0}
        measured.append(Measured(job, {"metrics": {row: {"sps": sps} for row, sps in speeds.items()}}))
    exhibit = EXPERIMENTS["sampling"].draw(Results(request, [], measured, []))
    assert "'a barrier every 5 steps' is 0.750 [0.750, 0.750] times as fast as 'free'" in exhibit.says
    assert "'resets wait' is 0.900 [0.900, 0.900] times as fast as 'resets mid-batch'" in exhibit.says
    assert "0.900 of the harmonic limit" in exhibit.says
    assert "with 16 simulators per process it is 1.000 [1.000, 1.000] times as fast" in exhibit.says
    assert "This agrees with the paper for simulators per process. This does not agree" in exhibit.says
    titles = [axes.get_title() for axes in exhibit.drawings[0].figure.axes]
    barrier, all_lines = exhibit.tables
    assert len(all_lines.rows) == 20 * 4 * len(games), "4 lines of 4 arrangements, and 2 of 2"
    assert len(barrier.rows) == 4 * (len(games) + 1), "4 numbers of simulators, and the paper's"
    shares = [(count, share) for _, count, _, _, share in barrier.rows]
    assert shares[:4] == [("2", "0.75"), ("4", "0.75"), ("8", "0.75"), ("16", "0.75")]
    assert shares[-4:] == [("2", "0.93"), ("4", "0.95"), ("8", "0.97"), ("16", "0.93")]
    assert tuple(barrier.rows[-1][2:4]) == ("38,400", "35,800")
    begin = [f"{game}, " for game in games] if len(games) > 1 else [""]
    for chart in ("2 samplers, with a core each", "training by A2C in 2 processes", "1 process, one group"):
        assert {f"{game}{chart}" for game in begin} <= set(titles)


def test_throughput_compares_algorithms_and_learners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "allowed_cores", lambda: [0, 1])
    request, runs = Request("small", 1, ("ALE/Pong-v5", "ALE/Breakout-v5")), []
    for job in EXPERIMENTS["throughput"].jobs(request):
        assert isinstance(job, Training)
        run = FinishedRun(job, Path())
        slower = {"DQN-512": 5.0, "CatDQN-2048": 10.0}.get(job.group.partition(",")[0], 1.0)
        vars(run).update(summary={"steps": 1_000, "seconds": slower / (1.0 if job.x == 1 else 1.5)}, rows=[])
        runs.append(run)
    exhibit = EXPERIMENTS["throughput"].draw(Results(request, runs, [], []))
    said = "A2C with one learner needs 13.9 hours for 50 M steps, estimated, Q-learning 3.684 [0.196, 69.319] times"
    assert exhibit.says.count(said) == 2
    assert len(exhibit.drawings[0].figure.axes) == 2 and len(exhibit.tables[0].rows) == 24
    assert {row[3] for row in exhibit.tables[0].rows} == {
        *("1.0s, with the start", "5.0s, with the start", "10s, with the start"),
        *("0.7s, with the start", "3.3s, with the start", "6.7s, with the start"),
    }
    assert "(2.2 to 3.7 times, on a GPU)" in exhibit.says
    alone = [run for run in runs if run.job.group == "A2C, 1 learner"]
    says = EXPERIMENTS["throughput"].draw(Results(request, alone, [], [])).says
    assert "A2C with one learner needs 13.9 hours for 50 M steps, estimated; ALE/Breakout-v5: " in says
    assert "two learners are 1.500 [1.500, 1.500] times as fast as one" in exhibit.says
    assert (
        "This agrees with the paper for two learners on ALE/Pong-v5 and two learners on ALE/B" in exhibit.says
    )


@pytest.mark.parametrize("cores", [2, 4])
def test_throughput_computes_more_learners_than_there_are_cores(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From one and two: a learner takes 2 ms for a step, and two 1.2 ms, of which they exchange 0.2 ms."""
    monkeypatch.setattr(throughput, "allowed_cores", lambda: list(range(cores)))
    request, runs = Request("small", 1), []
    for job in EXPERIMENTS["throughput"].jobs(request):
        assert isinstance(job, Training)
        run, step_s = FinishedRun(job, Path()), {1: 2e-3, 2: 1.2e-3, 4: 1e-3}[int(job.x)]
        row = {"step": 1_000, "seconds": 1.0, "system/cores": 1.0}
        vars(run).update(summary={"steps": 1_000, "seconds": 1_000 * step_s}, rows=[row])
        runs.append(run)
    exhibit = EXPERIMENTS["throughput"].draw(Results(request, runs, [], []))
    (table,) = exhibit.tables
    speeds = {row[1]: row[2] for row in table.rows if row[3] == "computed, not measured"}
    every = {
        ("A2C", 4): 1 / 0.65e-3,  # 0.2 ms x 3/2, divided by two
        ("A2C", 8): 1 / 0.3375e-3,
        ("DQN-512", 4): 1 / 0.8e-3,  # 0.2 ms x 3/2
        ("DQN-512", 8): 1 / 0.6e-3,
        ("A3C", 4): 1 / 0.6e-3,
        ("A3C", 8): 1 / 0.3e-3,
    }
    for (label, learners), speed in every.items():
        shown = speeds.get(f"{label}, {learners} learners*")
        assert shown == (f"{speed:,.0f}" if learners > cores else None)
    assert all(row[4].endswith("*") == row[1].endswith("*") for row in table.rows)
    assert "*: computed, not measured" in table.caption
    said = "none with more was measured here" if cores == 2 else "the computed hours are 0.7"
    assert said in table.caption
    stars = [line for line in exhibit.drawings[0].figure.axes[0].lines if line.get_marker() == "*"]
    assert next(len(line.get_xdata()) for line in stars) == (2 if cores == 2 else 1)


def test_throughput_has_the_learners_that_the_machine_has_cores_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asynchronous DQN is trained by as many as in the paper. What differs is the same text on all machines."""
    one, request = EXPERIMENTS["throughput"], Request("small", 1)
    async_counts = {"A3C": [2, 4, 8], "APPO": [2, 4, 8], "Async. DQN-512": [4]}
    for cores in (2, 4, 8):
        monkeypatch.setattr(throughput, "allowed_cores", lambda cores=cores: list(range(cores)))
        counts: dict[str, list[float]] = {}
        for job in one.jobs(request):
            counts.setdefault(job.group.partition(",")[0], []).append(job.x)
        for label in throughput._ROWS:
            possible = [count for count in async_counts.get(label, [1, 2, 4, 8]) if count <= cores]
            assert counts.get(label, []) == possible, label
    (table,) = one.draw(Results(request, [], [], [])).tables
    assert "DQN-512 by 4 asynchronous learners took 3.9 hours" in table.caption


@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ([float("nan")], ""),
        ([float("nan"), 0.004], "the thresholds discarded less than 1% of the gradients of each run"),
        ([0.004, 0.25], "the thresholds discarded up to 25% of the gradients of each run"),
    ],
)
def test_gorila_says_what_its_thresholds_have_discarded(shares: list[float], says: str) -> None:
    jobs = EXPERIMENTS["gorila-scaling"].jobs(Request("small", 1))
    (without, *_), limited = jobs, [job for job in jobs if job.settings["max_staleness"]]
    runs = []
    for job, share in zip((without, *limited), (0.9, *shares), strict=False):
        run = FinishedRun(job, Path())
        vars(run).update(rows=[{"step": 1, "seconds": 1.0, "system/stale_gradient_share": share}])
        vars(run)["rows"][0]["system/outlier_gradient_share"] = 0.0
        runs.append(run)
    assert gorila._discarded(Results(Request("small", 1), runs, [], [])) == says
