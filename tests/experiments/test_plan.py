"""What an experiment says, refuses and measures before it trains."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from screens import console, said_on
from small_experiments import experiment, training
from veldt.envs.arrangement import probe_spec
from veldt.envs.settings import AtariConfig
from veldt.envs.source import EnvSource
from veldt.envs.spec import EnvSpec
from veldt.errors import UsageError, VeldtError
from veldt.experiments.experiment import Measurement, Request, Training
from veldt.experiments.machines import this_machine
from veldt.experiments.planning import checks, estimate
from veldt.experiments.planning import memory as planned_memory
from veldt.experiments.planning.estimate import is_long_enough, measure_speeds, probe_settings
from veldt.experiments.planning.kinds import kind_of, one_of_each_kind
from veldt.experiments.planning.plan import plan_table
from veldt.experiments.run import run_experiment
from veldt.experiments.workspace import Workspace


def test_the_plan_is_a_table_of_what_is_left_with_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "allowed_cores", lambda: [0, 1])
    monkeypatch.setattr("veldt.experiments.run.measure_speeds", lambda *_: defaultdict(lambda: 1_000.0))
    jobs = [
        training(
            recipe=recipe,
            env=env,
            seed=seed,
            group=f"{recipe} {width}",
            settings={"steps": 3_600_000, "threads": 1, "num_envs": width},
        )
        for recipe in ("ppo", "a2c")
        for width in (8, 16)
        for env in ("ALE/Pong-v5", "ALE/Breakout-v5", "ALE/Qbert-v5")
        for seed in (1, 2, 3)
    ]
    screen = console()
    run_experiment(experiment(jobs), Request("paper", 3), tmp_path / "out", screen, plan_only=True)
    lines = [" ".join(line.split()) for line in said_on(screen).splitlines()]
    assert lines == [
        "mine: 36 runs, 36 to do, 129,600,000 steps",
        "recipe environments settings seeds runs steps cores SPS hours",
        "ppo ALE/Pong-v5 and 2 more num_envs 8 1-3 9 3.6M 1 1,000 9",
        "ppo ALE/Pong-v5 and 2 more num_envs 16 1-3 9 3.6M 1 1,000 9",
        "a2c ALE/Pong-v5 and 2 more num_envs 8 1-3 9 3.6M 1 1,000 9",
        "a2c ALE/Pong-v5 and 2 more num_envs 16 1-3 9 3.6M 1 1,000 9",
        "36 runs, about 18 hours (18h 01m) on this machine, as many side by side as its cores allow",
    ]
    screen, wide = console(), [replace(job, cores=0) for job in jobs]
    run_experiment(experiment(wide), Request("paper", 3), tmp_path / "wide", screen, plan_only=True)
    assert " ".join(said_on(screen).split()).endswith("on this machine, one at a time")


def test_measurements_have_a_row_for_each_group_with_the_flags_that_differ() -> None:
    jobs = [
        Measurement(
            group="one", words=("bench", "sampling", "--num-envs", n), seconds=1.0, panel="CartPole-v1"
        )
        for n in ("1", "2")
    ]
    table = plan_table(dict.fromkeys(jobs, 3_600.0), {})
    assert [list(column.cells) for column in table.columns] == [
        *(["bench sampling"], ["CartPole-v1"], ["one, num-envs 1 2"], [""], ["2"], [""], ["all"], [""], ["2"])
    ]


def test_memory_that_is_less_than_the_cores_allow_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four runs of an Atari replay buffer, on four cores with memory for two."""
    for module in (estimate, planned_memory):
        monkeypatch.setattr(module, "allowed_cores", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(planned_memory, "available_memory", lambda: 20 * 2**30)
    monkeypatch.setattr("veldt.experiments.run.measure_speeds", lambda *_: defaultdict(lambda: 1_000.0))
    jobs = [
        training(recipe=recipe, env="ALE/Pong-v5", seed=seed, settings={"steps": 3_600_000})
        for recipe in ("a2c", "dqn")
        for seed in (1, 2, 3, 4)
    ]
    for some, said, hours in (
        (jobs[:4], "", "1"),
        (
            jobs[4:],
            "No more than 2 runs with a replay buffer side by side, since each needs up to 8.3 GiB of memory, and 20.0 "
            "GiB are available",
            "2",
        ),
    ):
        screen = console()
        run_experiment(
            experiment(some), Request("paper", 4), tmp_path / some[0].recipe, screen, plan_only=True
        )
        lines = said_on(screen).splitlines()
        assert lines[-1].startswith(f"4 runs, about {hours} hours") and (lines[-2] == said) == bool(said)


def test_one_game_is_measured_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each recipe and setting once, whatever the seed and the steps."""
    jobs = [
        training(env=env, seed=seed, group=str(width), settings={"steps": seed, "num_envs": width})
        for env in ("ALE/Pong-v5", "ALE/Qbert-v5", "CartPole-v1")
        for width in (4, 8)
        for seed in (1, 2)
    ]
    probed: list[Training] = []
    monkeypatch.setattr(estimate, "_probed", lambda job, _: probed.append(job) or 5.0)
    workspace = Workspace(tmp_path / "out", experiment(jobs), Request("paper", 2))
    workspace.open()
    notes: list[str] = []
    speeds = measure_speeds(workspace, jobs, notes.append)
    assert probed == one_of_each_kind(jobs) == [jobs[0], jobs[2], jobs[8], jobs[10]]
    assert notes == [
        "measuring the speed of 4 kinds of runs, some seconds each, on 2 of 3 environments:",
        "1/4 ppo on ALE/Pong-v5, 4",
        "2/4 ppo on ALE/Pong-v5, 8",
        "3/4 ppo on CartPole-v1, 4",
        "4/4 ppo on CartPole-v1, 8",
    ]
    assert measure_speeds(workspace, jobs, notes.append) == speeds and len(notes) == 5
    damaged = dict.fromkeys(speeds, "fast") | dict.fromkeys(list(speeds)[:1], 0)
    workspace.speeds_path.write_text(json.dumps({this_machine(): damaged}))
    assert measure_speeds(workspace, jobs, notes.append) == speeds and len(notes) == 10


def test_a_speed_of_another_machine_is_measured_anew_and_kept_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speed_of_machine = {"two cores": 2.0, "four cores": 4.0}
    jobs, notes = [training()], list[str]()
    workspace = Workspace(tmp_path / "out", experiment(jobs), Request("paper", 1))
    workspace.open()
    workspace.speeds_path.write_text(json.dumps({kind_of(jobs[0]): 9.0}))  # as older versions wrote it
    for machine, measured in (("two cores", 2), ("four cores", 4), ("two cores", 4)):
        monkeypatch.setattr(estimate, "this_machine", lambda machine=machine: machine)
        monkeypatch.setattr(estimate, "_probed", lambda job, _, speed=speed_of_machine[machine]: speed)
        assert list(measure_speeds(workspace, jobs, notes.append).values()) == [speed_of_machine[machine]]
        assert len(notes) == measured


def test_a_kind_that_cannot_be_measured_is_shown_in_the_plan_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probed(job: Training, scratch: Path) -> float:
        if job.recipe == "a2c":
            raise VeldtError("a2c on CartPole-v1 did not train: it is broken")
        return 1_000.0

    monkeypatch.setattr(estimate, "_probed", probed)
    monkeypatch.setattr(estimate, "allowed_cores", lambda: [0])
    jobs = [
        training(recipe=recipe, group=recipe, seed=seed, settings={"steps": 3_600_000})
        for recipe in ("ppo", "a2c")
        for seed in (1, 2)
    ]
    planned = {}
    for name, some in {"both": jobs, "broken": jobs[2:]}.items():
        for _ in range(2):  # a failure is not kept
            screen = console()
            run_experiment(experiment(some), Request("paper", 2), tmp_path / name, screen, plan_only=True)
            planned[name] = [" ".join(line.split()) for line in said_on(screen).splitlines()]
            assert "not measured: a2c on CartPole-v1 did not train: it is broken" in planned[name]
    assert planned["both"][-3:] == [
        "ppo CartPole-v1 1 2 2 3.6M 1 1,000 2",
        "a2c CartPole-v1 1 2 2 3.6M 1 – –",
        "2 runs, about 2 hours (2h 00m) on this machine, as many side by side as its cores allow; without 2 runs whose "
        "speed could not be measured",
    ]
    last = "2 runs whose speed could not be measured, so that it is not known how long they take"
    assert planned["broken"][-1] == last
    with pytest.raises(VeldtError, match="the disk is full"):
        full = VeldtError("ppo did not train: cannot write: the disk is full")
        monkeypatch.setattr(estimate, "_probed", Mock(side_effect=full))
        run_experiment(experiment(jobs), Request("paper", 2), tmp_path / "full", console(), plan_only=True)


def test_a_replay_buffer_that_does_not_fit_is_refused_with_what_can_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "available_memory", lambda: 2**30)
    mine = experiment([training(recipe=recipe, group=recipe, env="ALE/Pong-v5") for recipe in ("ppo", "dqn")])
    cause = r"^dqn on ALE/Pong-v5 cannot begin: its replay buffer needs 7.8 GiB of memory, and 1.0 GiB are available: "
    for request, instead in (
        (Request("small", 1), "free some or take a machine that has more$"),
        (Request("paper", 1), "free some, take a machine that has more or leave --scale paper out$"),
        (Request("paper", 1, (), ("dqn",)), "free some, .* or leave dqn out of --recipes$"),
    ):
        with pytest.raises(UsageError, match=cause + instead):
            run_experiment(mine, request, tmp_path / "out", console())
    assert not (tmp_path / "out").exists()


def test_an_environment_is_probed_once_for_all_runs_with_the_same_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed: list[tuple[str, int]] = []

    def probe(source: EnvSource, atari: AtariConfig) -> EnvSpec:
        probed.append((source.name, atari.frame_stack))
        return probe_spec(source, atari)

    monkeypatch.setattr(checks, "probe_spec", probe)
    jobs = [
        training(
            recipe=recipe, env="ALE/Pong-v5", group=str(stack), settings={"frame_stack": stack, "steps": 9}
        )
        for stack in (4, 2)
        for recipe in ("ppo", "dqn")
    ]
    buffers = checks.check_jobs(jobs, Request("small", 1))
    memory = planned_memory.memory_for(jobs, buffers)
    assert probed == [("ALE/Pong-v5", 4), ("ALE/Pong-v5", 2)]
    assert memory.needed[jobs[0]] < memory.needed[jobs[1]] - 2**32


@pytest.mark.parametrize(
    ("recipe", "env", "given", "starts"),
    [
        ("dqn", "CartPole-v1", {"batch_size": 4_096, "learning_starts": 9_000}, 8_192),
        (
            "dqn",
            "CartPole-v1",
            {"batch_size": 64, "second_batch_size": 2_048, "learning_starts": 9_000},
            4_096,
        ),
        ("gorila", "ALE/Pong-v5", {"batch_size": 512}, 8_192),  # the recipe's own 8 learners
        ("gorila", "ALE/Pong-v5", {"batch_size": 512, "learners": 2}, 2_048),
        ("dqn-512", "ALE/Pong-v5", {}, 1_024),  # the recipe's own batch
        ("ppo", "CartPole-v1", {}, None),
    ],
)
def test_a_probe_learns_from_its_first_batches_on(
    recipe: str, env: str, given: dict[str, Any], starts: int | None
) -> None:
    job = training(recipe=recipe, env=env, settings={"steps": 10**6, **given})
    assert probe_settings(job).get("learning_starts") == starts


def test_a_probe_sees_a_second_rollout_of_learners_that_end_theirs_together() -> None:
    """Eight of them: all first rollouts, of 20 s, end within 4 s, in which 14,336 steps become known."""

    def row(seconds: float, step: int) -> dict[str, float]:
        return {"seconds": seconds, "step": step, "train/updates": step // 80}

    rows = [row(1.0, 0), row(21.0, 2_048), row(25.0, 16_384)]
    assert not is_long_enough(rows[:2]) and not is_long_enough(rows)
    assert is_long_enough([*rows, row(39.0, 16_384 + 2_048)])
    assert not is_long_enough([row(1.0, 0), row(1.5, 80), row(3.5, 240)])
    assert is_long_enough([row(1.0, 0), row(1.5, 80), row(4.5, 320)])
    assert is_long_enough([row(1.0, 0), row(201.0, 80), row(262.0, 8_000)])


def test_a_probe_that_is_too_slow_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_PROBE_DEADLINE_S", 0.0)
    monkeypatch.setattr(estimate, "_END_S", 0.0)
    with pytest.raises(
        estimate.VeldtError, match="ppo on CartPole-v1 did not train: it was too slow to be measured"
    ):
        estimate._probed(training(), tmp_path / "probe")
