"""What `--scale paper` trains: the paper's numbers of simulators and learners, batches and step sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from veldt.envs.spec import ActionSpec
from veldt.experiments.catalogue import EXPERIMENTS
from veldt.experiments.experiment import Request, Training
from veldt.experiments.planning.checks import check_jobs
from veldt.experiments.results import FinishedRun, Results
from veldt.networks.own import NO_PARTS
from veldt.recipes.configure import configure

_ACTION = ActionSpec("discrete", sizes=(4,), start=(0,))


class Sizes(NamedTuple):
    """`batch` is the steps of a phase: of all synchronous learners, of one asynchronous one; `rate` is
    at the start, to two digits."""

    learners: int
    envs: int
    horizon: int
    batch: int
    rate: float


def config_of(job: Training) -> Any:
    return configure(job.recipe, job.env, {}, None, NO_PARTS, job.settings).config


def sizes_of(job: Training) -> Sizes:
    config = config_of(job)
    algorithm = config.make_algorithm(_ACTION)
    horizon = algorithm.horizon(config.phase_width)
    batch = horizon * config.phase_width
    rate = float(f"{algorithm.learning_rate(0.0, batch):.2g}")
    return Sizes(config.roles.learners, config.envs.num_envs, horizon, batch, rate)


def by_method(name: str, envs: tuple[str, ...] = ("ALE/Pong-v5",)) -> dict[str, list[Training]]:
    """The trainings by the first word of their recipe, in their order."""
    found: dict[str, list[Training]] = {}
    request = Request("paper", 1, envs)
    jobs = EXPERIMENTS[name].jobs(request)
    check_jobs(jobs, request)
    for job in jobs:
        assert isinstance(job, Training)
        found.setdefault(job.recipe.partition("-")[0], []).append(job)
    return found


def test_simulators_are_those_of_figure_2() -> None:
    jobs = by_method("simulators")
    # Horizon 5, batches of 80 to 2,560, and the step size of 5.2; at 512 that of A.3.
    rates = {16: 7e-4, 32: 9.9e-4, 64: 1.4e-3, 128: 2e-3, 256: 2.8e-3, 512: 3e-3}
    assert [sizes_of(job) for job in jobs["a2c"]] == [
        Sizes(1, count, 5, 5 * count, rate) for count, rate in rates.items()
    ]
    # One to 32 learners of 16 envs, at one step size.
    assert [sizes_of(job) for job in jobs["a3c"]] == [
        Sizes(learners, 16 * learners, 5, 80, 7e-4) for learners in (1, 2, 4, 8, 16, 32)
    ]
    assert [job.x for job in jobs["a3c"]] == [1, 2, 4, 8, 16, 32]
    # 2,048 steps for all numbers, from 8 x 256 to 512 x 4.
    assert [sizes_of(job) for job in jobs["ppo"]] == [
        Sizes(1, 8 * 2**power, 256 // 2**power, 2048, 2.5e-4) for power in range(7)
    ]
    learned = {(one.epochs, one.minibatches, one.clip_values) for one in map(learn_of, jobs["ppo"])}
    assert learned == {(4, 4, False)}
    # Eight learners of 8 x 256, that exchange after 1 to 4 updates.
    assert {sizes_of(job) for job in jobs["appo"]} == {Sizes(8, 64, 256, 2048, 6.3e-5)}
    assert [(job.x, config_of(job).roles.local_steps) for job in jobs["appo"]] == [(1, 1), (2, 2), (4, 4)]


def learn_of(job: Training) -> Any:
    return config_of(job).learn


def test_each_method_is_drawn_over_what_figure_2_scales_it_by() -> None:
    ends = {"a2c": (16, 512), "ppo": (8, 512), "a3c": (1, 32), "appo": (1, 4)}
    request, runs = Request("paper", 2, ("ALE/Pong-v5",)), []
    for job in EXPERIMENTS["simulators"].jobs(request):
        assert isinstance(job, Training)
        if job.x not in ends[job.recipe.partition("-")[0]]:
            continue
        run = FinishedRun(job, Path())
        score = np.array([100.0 - 50.0 * (job.recipe == "appo-8" and job.x == 4)])
        vars(run).update(summary={"steps": 10}, rows=[], episodes=(np.array([10.0]), score))
        runs.append(run)
    exhibit = EXPERIMENTS["simulators"].draw(Results(request, runs, [], []))
    drawn = {
        one.title: [(axes.get_title(), axes.get_xlabel()) for axes in one.figure.axes if axes.get_visible()]
        for one in exhibit.drawings[:3]
    }
    assert drawn == {
        "Scores over simulators": [(f"{one} on ALE/Pong-v5", "simulators") for one in ("a2c", "ppo")],
        "Scores over learners": [("a3c on ALE/Pong-v5", "learners")],
        "Scores over updates per exchange": [("appo on ALE/Pong-v5", "updates per exchange")],
    }
    assert (
        "a3c on ALE/Pong-v5 100.0 with 1, 100.0 with 32; appo on ALE/Pong-v5 100.0 with 1, 50.0 with 4"
        in (exhibit.says)
    )
    assert exhibit.says.endswith("This does not agree with the paper for appo on ALE/Pong-v5.")


def test_minutes_are_those_of_figure_4() -> None:
    """Eight learners each; PPO's together have the batch of one."""
    assert {method: [sizes_of(job) for job in jobs] for method, jobs in by_method("minutes").items()} == {
        "a2c": [Sizes(8, 256, 5, 1280, 2.8e-3)],
        "a3c": [Sizes(8, 128, 5, 80, 7e-4)],
        "ppo": [Sizes(8, 64, 32, 2048, 2.5e-4)],
        "appo": [Sizes(8, 64, 256, 2048, 6.3e-5)],
    }


def test_saturation_has_the_paper_s_a2c() -> None:
    (jobs,) = by_method("saturation").values()
    assert [job.recipe for job in jobs] == ["a2c-16"] * 5 + ["a2c-512"]
    assert [sizes_of(job).batch for job in jobs] == [80, 160, 320, 640, 1280, 2560]


@pytest.mark.parametrize(
    ("env", "said", "rates"),
    [
        ("ALE/Breakout-v5", "3.3e-4 for 64, 5.7e-4 for 256, 1.5e-3 for 2,048", [3.3e-4, 5.7e-4, 1.5e-3]),
        ("CartPole-v1", "both have one step size, whatever their batch size", [1e-3] * 3),
    ],
)
def test_the_step_sizes_of_a_second_learner_are_those_that_are_said(
    env: str, said: str, rates: list[float]
) -> None:
    settings = {"learning_starts": 5_000}
    sizes = [
        sizes_of(
            Training(group="", recipe="dqn", env=env, seed=1, settings={**settings, "batch_size": batch})
        )
        for batch in (64, 256, 2048)
    ]
    assert [one.rate for one in sizes] == rates
    one = EXPERIMENTS["secondary-learner"]
    differs = {scale: " ".join(one.differs(Request(scale, 1, (env,)))) for scale in ("small", "paper")}
    assert all(said in text and text.count("step size") == 1 for text in differs.values())


@pytest.mark.parametrize("name", ["simulators", "minutes", "saturation"])
def test_all_of_the_paper_s_frames_are_the_paper_s(name: str) -> None:
    for jobs in by_method(name, ()).values():
        assert {config_of(job).atari.preprocessing for job in jobs} == {"104x80"}


@pytest.mark.parametrize(("name", "runs"), [("ga3c-network", 32), ("ga3c-tuner", 17)])
def test_ga3c_has_the_agents_of_its_paper(name: str, runs: int) -> None:
    """N_A = 32: those of the figure of the tuner, and of the authors' code."""
    (jobs,) = by_method(name).values()
    assert len(jobs) == runs and {config_of(job).envs.num_envs for job in jobs} == {32}


@pytest.mark.parametrize("name", ["ga3c-network", "ga3c-tuner"])
def test_each_pair_of_ga3c_s_numbers_runs_once_before_any_runs_again(name: str) -> None:
    for scale in ("small", "paper"):
        jobs = EXPERIMENTS[name].jobs(Request(scale, 3))  # type: ignore[arg-type]
        seeds = [job.seed for job in jobs if isinstance(job, Training)]
        assert seeds == sorted(seeds) and [seeds.count(seed) for seed in (1, 2, 3)] == [len(jobs) // 3] * 3
        assert not any(job.settings["group_rollouts"] for job in jobs if isinstance(job, Training))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gorila-scaling", "up to 31 bundles instead of 100"),
        ("batches", "are those of training"),
        ("replicas", "32 envs for the figure's 32 actors"),
        ("epsilons", "32 envs instead of 360 actors"),
        ("precision", "The paper has no such runs"),
    ],
)
def test_what_differs_from_the_paper_at_its_own_scale_is_said(name: str, said: str) -> None:
    differs = {scale: " ".join(EXPERIMENTS[name].differs(Request(scale, 1))) for scale in ("small", "paper")}
    assert said in differs["paper"] and said not in differs["small"]


@pytest.mark.parametrize(
    "name", ["scores", "throughput", "batches", "norms", "replicas", "epsilons", "gorila-scaling"]
)
def test_no_replay_buffer_of_an_atari_run_stays_on_the_disk(name: str) -> None:
    """Each has 8 GB, and the scores of 49 games are of hundreds of runs."""
    configs = [config_of(job) for jobs in by_method(name).values() for job in jobs]
    kept = {config.run.checkpoint_replay for config in configs if config.replay is not None}
    assert kept == {"none"}
