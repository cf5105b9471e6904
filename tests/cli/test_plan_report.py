"""`veldt doctor --plan`: the plan of one run, each choice with its reason, and what else there was."""

from __future__ import annotations

from typing import Any

import pytest

from veldt.cli import main
from veldt.cli.verbs import plan_report
from veldt.cli.verbs.plan_report import Alternative, Decision, decisions_of
from veldt.networks.own import NO_PARTS
from veldt.recipes.configure import configure
from veldt.systems.planning.run_plan import make_run_plan


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_report, "_SECONDS", 0.01)


def choices(recipe: str, **settings: Any) -> list[Decision]:
    request = configure(recipe, "CartPole-v1", {}, None, NO_PARTS, settings)
    return decisions_of(request, make_run_plan(request))


def test_what_is_open_has_its_alternatives_measured_and_one_of_them_is_chosen() -> None:
    device, envs, updates = choices("ppo", num_envs=4, batch_size=64, minibatches=1, device="cpu")
    assert (device.what, device.why) == ("device cpu", "as asked") and not device.alternatives
    assert {one.name for one in envs.alternatives} >= {"in this process, one group"} and len(
        envs.alternatives
    ) == 3
    for choice in (envs, updates):
        assert [one.is_chosen for one in choice.alternatives].count(True) == 1
        assert all(one.sps > 0 for one in choice.alternatives)
    assert updates.what == "updates of 64 steps" and "small network" in updates.why


def test_what_is_given_has_no_alternative() -> None:
    settings = {"env_backend": "in-process", "precision": "fp32", "threads": 1, "alternate": "off"}
    _, envs, updates = choices("ppo", num_envs=4, batch_size=64, minibatches=1, **settings)
    assert envs.why == "in this process (as asked)"
    assert [len(choice.alternatives) for choice in (envs, updates)] == [1, 1]
    assert updates.why == "fp32 as asked; 1 thread as asked"


def test_processes_of_a_distributed_run_have_the_source_of_their_number() -> None:
    def why(recipe: str, **settings: Any) -> str:
        request = configure(recipe, "CartPole-v1", {}, None, NO_PARTS, settings)
        choice = plan_report._roles(request, make_run_plan(request))
        assert choice.what == "processes" and not choice.alternatives
        return choice.why

    assert why("impala").startswith("4 actors, the recipe's value (measured here); ")
    assert why("impala", actors=2, num_envs=4).startswith("2 actors, as asked; ")
    assert "1 actor, as many as share 1 env evenly, at most one for each of the " in why(
        "apex-dqn", num_envs=1, actors=0
    )
    assert "processes of agents" in why("ga3c", num_envs=16, agent_processes=2)


def test_threads_of_a_distributed_run_are_explained() -> None:
    *_, updates = choices("apex-dqn", num_envs=8)
    assert "shared out among the processes" in updates.why and updates.alternatives
    assert updates.unit == "steps learned from per second"


def test_something_clearly_faster_is_named() -> None:
    slow, fast = Alternative("slow", "--slow", 100.0, True), Alternative("fast", "--fast", 119.0, False)
    assert Decision("speed", "why", [slow, fast]).advice == ""
    clearly = Alternative("fast", "--fast", 250.0, False)
    assert (
        Decision("speed", "why", [slow, clearly]).advice == "fast was 2.5 times as fast now: --fast takes it"
    )


def test_the_report_has_the_plan_reasons_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    main(
        [
            "doctor",
            "--plan",
            "ppo",
            "--env",
            "CartPole-v1",
            "--num-envs",
            "4",
            "--batch-size",
            "64",
            "--minibatches",
            "1",
            "--device",
            "cpu",
        ]
    )
    said = capsys.readouterr().out
    assert "veldt train ppo --env CartPole-v1 would use" in said and "chosen" in said
    assert "steps learned from per second" in said
    assert "where envs run: " in said and "--env-backend" in said and "device cpu: as asked" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("doctor --plan", "--plan is without a recipe: known are a2c"),
        ("doctor --plan pppo", "'pppo' (did you mean 'ppo'?)"),
        (
            "doctor --num-envs 8",
            "no flag --num-envs: only with --plan RECIPE does doctor take the settings of `veldt train RECIPE`",
        ),
        ("doctor --plan ppo --env CartPole-v1 --num-env 8", "no flag --num-env (did you mean '--num-envs'?)"),
        ("doctor --plan ppo --env CartPol-v1", "CartPole-v1"),
        ("doctor --plan ppo --env CartPole-v1 --batch-size 7", "--batch-size"),
        ("doctor --plan ppo-8x256", "--env is missing: veldt doctor --plan ppo-8x256 --env ENV"),
    ],
)
def test_wrong_arguments_are_one_sentence(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words.split())
    assert stopped.value.code == 2 and said in capsys.readouterr().err
