"""Evaluation by steps (125,000, of which whole episodes count), and the pauses for it in training."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import veldt
from run_state import SMALL_REPLAYED, newest
from tiny_runs import TINY
from veldt import cli
from veldt.errors import EnvError
from veldt.evaluation.evaluator import EvaluatedRows, Evaluation, _Sequence, play_steps
from veldt.report.normalising import human_normalised
from veldt.runs.directory import RunDirectory
from veldt.sampling.episodes import Episode
from veldt.systems.driver import evaluating
from veldt.tracking.metrics import read_metrics

PONG: dict[str, Any] = {name: value for name, value in SMALL_REPLAYED.items() if name != "hidden"} | {
    "env": "ALE/Pong-v5",
    "network": "a3c",
    "steps": 100,
    "max_episode_steps": 50,
}


@pytest.fixture(scope="module")
def pong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("protocol") / "run"
    veldt.train("dqn", run_dir=path, quiet=True, evaluate_every=0, evaluate_steps=170, **PONG)
    return path


def test_as_many_episodes_count_as_fit_into_the_steps(pong: Path) -> None:
    agent = veldt.load(pong)
    result = play_steps(agent, 170, seed=3, greedy=False)
    assert result.lengths == [50] * 3  # Pong's episodes are longer, and all are truncated
    assert result == veldt.evaluate(pong, protocol="atari", seed=3)
    assert len(play_steps(agent, 49, seed=3, greedy=False).scores) == 0


def test_more_steps_hold_more_episodes_of_the_same_envs(pong: Path) -> None:
    agent = veldt.load(pong)
    few, many = (play_steps(agent, steps, seed=3, greedy=False) for steps in (220, 420))
    assert len(few.scores) == 4 and len(many.scores) == 8
    assert many.scores[:4] == few.scores


class ShortOrLong(gymnasium.Env[np.ndarray, Any]):
    """Episodes of 20 or 200 steps, as the seed wants, with a reward of 1 for each step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = int(self.np_random.choice([20, 200]))
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        return np.zeros(1, np.float32), 1.0, self._left == 0, False, {}


def test_long_episodes_count_as_often_as_short_ones(tmp_path: Path) -> None:
    """A share of the steps for each env would lose one episode of each, and more long ones: then the mean is 86."""
    settings = SMALL_REPLAYED | {"env": ShortOrLong, "steps": 64, "env_backend": "in-process"}
    agent = veldt.load(
        veldt.train("dqn", run_dir=tmp_path / "run", quiet=True, **settings).path, env=ShortOrLong
    )
    means = [play_steps(agent, 1250, seed=seed, greedy=True).mean for seed in range(20)]
    assert 100 < np.mean(means) < 120  # the mean of all episodes is 110


@given(st.data())
def test_what_counts_is_what_one_env_would_have_played(data: st.DataObject) -> None:
    width, steps = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 60))
    length_EB = data.draw(st.lists(st.lists(st.integers(1, 9), min_size=width, max_size=width), min_size=61))
    fails_EB = data.draw(st.lists(st.lists(st.booleans(), min_size=width, max_size=width), max_size=3))
    failed = {(e, b) for e, fails in enumerate(fails_EB[: len(length_EB)]) for b in range(width) if fails[b]}
    for e, b in failed:
        length_EB[e][b] = 1  # fails at once
    in_order = [(e, b) for e in range(len(length_EB)) for b in range(width) if (e, b) not in failed]
    expected, left = [], steps
    for e, b in in_order:
        if (left := left - length_EB[e][b]) < 0:
            break
        expected.append((e, b))

    sequence, done, is_over = _Sequence(width, steps), 0, False
    while not is_over:
        finished, episode_B, length_B, done_before = [], np.zeros(width, int), np.zeros(width, int), done
        done += data.draw(st.integers(1, 20))
        for b in range(width):  # each episode is followed by a step that resets its env
            begin = 0
            for e, lengths in enumerate(length_EB):
                end = begin + lengths[b]
                if done_before < end <= done and (e, b) not in failed:
                    finished.append(Episode(b, e, 0, 0.0, np.zeros(lengths[b])))
                if begin <= done:
                    episode_B[b], length_B[b] = e, min(done - begin, lengths[b])
                begin = end + 1
        is_over = sequence.add(EvaluatedRows(finished, episode_B, length_B))
    assert [(episode.episode, episode.env_index) for episode in sequence.episodes] == expected


def test_an_evaluation_stops_on_request(pong: Path) -> None:
    calls = []
    play_steps(
        veldt.load(pong), 100_000, seed=1, greedy=False, stopped=lambda: len(calls) > 1 or calls.append(1)
    )  # type: ignore[func-returns-value]
    assert len(calls) == 2


def test_the_command(pong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["evaluate", str(pong), "--protocol", "atari", "--json"])
    metrics = json.loads(capsys.readouterr().out)
    assert metrics["episodes"] == 3 and metrics["ep_length_mean"] == 50
    assert metrics["human_normalised"] == human_normalised(metrics["ep_return_mean"], "pong")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["evaluate", str(pong), "--protocol", "nature"])
    assert "--protocol" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        cli.main(["evaluate", str(pong), "--protocol", "atari", "--episodes", "3"])
    assert "--episodes is 3" in capsys.readouterr().err


def test_human_starts_are_normalised_by_scores_from_human_starts(
    pong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = tmp_path / "starts.safetensors"
    veldt.record_starts(pong, starts=1, out=starts)
    cli.main(["evaluate", str(pong), "--starts", str(starts), "--json"])
    metrics = json.loads(capsys.readouterr().out)
    assert metrics["human_normalised"] == human_normalised(metrics["ep_return_mean"], "pong", "human")
    cli.main(["evaluate", str(pong), "--starts", str(starts)])
    assert f", human-normalised {metrics['human_normalised']:.3f} (human starts)" in capsys.readouterr().out


def test_pauses_change_nothing_of_training_and_are_recorded(tmp_path: Path) -> None:
    settings = SMALL_REPLAYED | {"env": "CartPole-v1", "steps": 500, "env_backend": "in-process"}
    plain, paused = tmp_path / "plain", tmp_path / "paused"
    veldt.train("dqn", run_dir=plain, quiet=True, **settings)
    veldt.train("dqn", run_dir=paused, quiet=True, evaluate_every=200, evaluate_steps=600, **settings)
    one, two = newest(plain).groups["weights"], newest(paused).groups["weights"]
    assert all(np.array_equal(one[name], two[name]) for name in one)
    rows = [row for row in read_metrics(paused) if row.get("eval/episodes")]
    assert [row["step"] // 200 for row in rows] == [1, 2, 2]  # after 200 and 400, and at the end
    assert all(row["eval/ep_return_mean"] > 5 for row in rows)
    said = [event for event in RunDirectory.open(paused).read_events() if event["kind"] == "evaluation"]
    assert len(said) == 3 and "episodes, raw return" in said[0]["text"]


def test_evaluation_epsilon_is_its_own_and_zero_means_zero(tmp_path: Path) -> None:
    settings = SMALL_REPLAYED | {"env": "CartPole-v1", "steps": 200, "env_backend": "in-process"}
    settings |= {"epsilon_start": 1.0, "epsilon_end": 1.0}
    for epsilon in (0.0, 1.0):
        path = tmp_path / str(epsilon)
        veldt.train("dqn", run_dir=path, quiet=True, evaluation_epsilon=epsilon, **settings)
        drawn, best = (veldt.evaluate(path, episodes=20, greedy=greedy) for greedy in (False, True))
        assert (drawn == best) == (epsilon == 0.0)


def test_an_environment_that_fails_in_an_evaluation_leaves_a_checkpoint_of_that_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any, **named: Any) -> None:
        raise EnvError("it failed")

    monkeypatch.setattr(evaluating, "play_steps", fails)
    settings = SMALL_REPLAYED | {"env": "CartPole-v1", "steps": 500, "env_backend": "in-process"}
    settings["evaluate_steps"] = 600
    with pytest.raises(EnvError):
        veldt.train("dqn", run_dir=tmp_path / "run", quiet=True, evaluate_every=200, **settings)
    assert 200 <= newest(tmp_path / "run").step < 240
    monkeypatch.undo()
    assert veldt.resume(tmp_path / "run", quiet=True).reason == "steps"
    rows = [row for row in read_metrics(tmp_path / "run") if row.get("eval/episodes")]
    assert [row["step"] // 200 for row in rows] == [1, 2, 2]


def interrupts_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets each evaluation begin with Ctrl-C."""

    def interrupted(*arguments: Any, **named: Any) -> Evaluation:
        os.kill(os.getpid(), signal.SIGINT)
        return play_steps(*arguments, **named)

    monkeypatch.setattr(evaluating, "play_steps", interrupted)


def test_an_interrupted_evaluation_is_repeated_on_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts_evaluation(monkeypatch)
    settings = SMALL_REPLAYED | {"env": "CartPole-v1", "steps": 500, "env_backend": "in-process"}
    run = veldt.train(
        "dqn", run_dir=tmp_path / "run", quiet=True, evaluate_every=200, evaluate_steps=600, **settings
    )
    assert run.reason == "interrupted" and 200 <= run.summary["steps"] < 240
    assert not [row for row in read_metrics(run.path) if row.get("eval/episodes")]
    monkeypatch.undo()
    veldt.resume(run.path, quiet=True)
    rows = [row for row in read_metrics(run.path) if row.get("eval/episodes")]
    assert [row["step"] // 200 for row in rows] == [1, 2, 2]


@pytest.mark.parametrize("learners", [1, pytest.param(2, id="two processes")])
def test_the_last_evaluation_is_repeated_on_resume_if_it_was_interrupted(
    learners: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts_evaluation(monkeypatch)
    settings = TINY | {"evaluate_every": 128, "evaluate_steps": 600, "steps": 128, "learners": learners}
    run = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, **settings)
    assert run.reason == "interrupted" and run.summary["steps"] >= 128
    monkeypatch.undo()
    for _ in range(2):  # the second time there is nothing left to do
        assert veldt.resume(run.path, quiet=True).reason == "steps"
        rows = [row for row in read_metrics(run.path) if row.get("eval/episodes")]
        assert [row["step"] for row in rows] == [run.summary["steps"]]


class StopsWhenEvaluated(veldt.Callback):
    def __init__(self) -> None:
        self.evaluated: list[float] = []

    def on_evaluation(self, context: veldt.CallbackContext) -> None:
        self.evaluated.append(context.metrics["eval/ep_return_mean"])
        context.stop("good enough")


def test_an_evaluation_after_which_a_callback_stops_the_run_is_not_repeated(tmp_path: Path) -> None:
    stops, settings = StopsWhenEvaluated(), {"evaluate_every": 64, "evaluate_steps": 100}
    run = veldt.train(
        "ppo", env="CartPole-v1", run_dir=tmp_path / "run", callbacks=[stops], quiet=True, **TINY | settings
    )
    assert run.reason == "callback"
    assert [read_metrics(run.path)[-1]["eval/ep_return_mean"]] == stops.evaluated
