"""Episodes of the training are replayed as videos; an episode that cannot be shown is an error."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import veldt
from environments import Scripted, scripted
from veldt.cli.verbs import watch
from veldt.envs.from_gymnasium.gymnasium_step_env import GymnasiumStepEnv
from veldt.envs.settings import AtariConfig
from veldt.envs.source import resolve
from veldt.evaluation.rendered_env import RenderedEnv
from veldt.runs.episodes import read_episodes

QUICK: dict[str, Any] = {
    "steps": 128,
    "num_envs": 4,
    "batch_size": 128,
    "minibatches": 2,
    "env_backend": "in-process",
    "quiet": True,
}


NOT_SHOWN = r"cannot be rendered.*keyword argument `render_mode`"


class Random(Scripted):
    """Its rewards are not those of its seed and its actions."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__([(5, "terminated")])
        self.render_mode = render_mode

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, float(np.random.default_rng().normal()), *rest

    def render(self) -> Any:
        return np.zeros((8, 8, 3), np.uint8)


class Unseen(Random):
    """Cannot be told to render."""

    def __init__(self) -> None:
        super().__init__()


def rendering() -> gymnasium.Env[Any, Any]:
    return Random("rgb_array")


def anything(**kwargs: Any) -> gymnasium.Env[Any, Any]:
    return Random(**kwargs)


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "write_video", lambda frames, out, fps: list(frames))


def record(run: Path, episode: int | None = None) -> str:
    return watch.record(run, episode, seed=0, greedy=False, best=False, out=None)


def test_rewards_that_are_no_round_numbers(tmp_path: Path) -> None:
    env = {"env": "Pendulum-v1", "env_kwargs": {"max_episode_steps": 10}}
    run = veldt.train("ppo", run_dir=tmp_path / "run", random_start_steps=8, **env, **QUICK)
    assert "an episode of 10 steps" in record(run.path, 0)
    assert "an episode of 10 steps" in record(run.path, -1)
    assert "an episode of 10 steps" in record(run.path)


def test_a_video_is_named_by_the_index_of_its_episode(tmp_path: Path) -> None:
    run = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", **QUICK)
    episodes = len(read_episodes(run.path))
    assert episodes > 1
    assert f"/videos/episode-{episodes - 1}.mp4: " in record(run.path, -1)


def test_a_name_that_is_no_video_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    run = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", **QUICK)
    with pytest.raises(veldt.UsageError, match=r"x\.txt cannot be a video"):
        watch.record(run.path, None, seed=0, greedy=False, best=False, out=tmp_path / "x.txt")


@pytest.mark.parametrize(
    ("env", "frame_skip", "expected"),
    [("ALE/Pong-v5", 4, 15.0), ("ALE/Pong-v5", 1, 60.0), ("CartPole-v1", 4, 30.0)],
)
def test_a_game_is_shown_as_fast_as_on_the_console(env: str, frame_skip: int, expected: float) -> None:
    rendered = RenderedEnv(resolve(env), AtariConfig(frame_skip=frame_skip))
    with contextlib.closing(rendered):
        assert rendered.steps_per_second == expected


def test_drawing_needs_no_screen(tmp_path: Path) -> None:
    run = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", **QUICK)
    headless = {
        k: v for k, v in os.environ.items() if k not in ("SDL_VIDEODRIVER", "XDG_RUNTIME_DIR", "DISPLAY")
    }
    command = [sys.executable, "-m", "veldt", "watch", str(run.path)]
    done = subprocess.run(command, check=True, env=headless, capture_output=True, text=True)
    assert done.stderr == ""


def test_a_missing_pygame_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", **QUICK)
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(
        veldt.UsageError, match=r"^CartPole-v1 is drawn with pygame.*pip install 'veldt\[video\]'$"
    ):
        record(run.path)


def test_an_episode_that_differs_from_its_record_is_an_error(tmp_path: Path) -> None:
    run = veldt.train("ppo", env=f"{__name__}:Random", run_dir=tmp_path / "run", **QUICK)
    with pytest.raises(
        veldt.VeldtError, match="has changed since, or is not deterministic, so that the episode cannot"
    ) as said:
        record(run.path, 0)
    assert said.value.exit_code == 1


def test_a_missing_episode_is_refused(tmp_path: Path) -> None:
    run = veldt.train("ppo", env=f"{__name__}:Random", run_dir=tmp_path / "run", **QUICK)
    with pytest.raises(
        veldt.UsageError, match=r"--episode is 1000000: the run has \d+ finished episodes, 0 to"
    ):
        record(run.path, 1_000_000)
    (run.path / "episodes.jsonl").write_text("")
    with pytest.raises(veldt.UsageError, match="--episode is 0: the run has finished no episode yet"):
        record(run.path, 0)


@pytest.mark.parametrize("factory", [scripted, Unseen])
def test_a_factory_without_render_mode_is_refused(factory: Any) -> None:
    with pytest.raises(veldt.UsageError, match=NOT_SHOWN):
        resolve(factory).make(render=True)


@pytest.mark.filterwarnings("ignore:.*render_mode")
def test_a_registered_class_without_render_mode_is_refused() -> None:
    gymnasium.register("Unseen-v0", entry_point=f"{__name__}:Unseen")
    try:
        with pytest.raises(veldt.UsageError, match=NOT_SHOWN):
            resolve("Unseen-v0").make(render=True)
    finally:
        del gymnasium.registry["Unseen-v0"]


@pytest.mark.parametrize("factory", [rendering, Random, anything])
def test_a_factory_that_renders(factory: Any) -> None:
    env = resolve(factory).make(render=True)
    assert env.render_mode == "rgb_array"


class Draws(Random):
    """Renders what it is told."""

    def __init__(self, render_mode: str | None = None, picture: Any = None) -> None:
        super().__init__(render_mode)
        self._picture = picture

    def render(self) -> Any:
        return self._picture


@pytest.mark.parametrize(
    ("picture", "got"),
    [
        (None, "NoneType"),
        ([np.zeros((8, 8, 3), np.uint8)], "list"),
        (np.zeros((8, 8, 3), np.float32), r"float32 \[8, 8, 3\]"),
        (np.zeros((8, 8), np.uint8), r"uint8 \[8, 8\]"),
    ],
)
def test_what_is_no_picture_is_one_sentence(picture: Any, got: str) -> None:
    env = GymnasiumStepEnv(Draws("rgb_array", picture))
    with pytest.raises(veldt.UsageError, match=rf"returned {got}: .* uint8 \[height, width, 3\]"):
        env.render()


def test_actions_that_the_environment_does_not_take(tmp_path: Path) -> None:
    env = {"env": "CartPole-v1"}
    run = veldt.train("ppo", run_dir=tmp_path / "run", **env, **QUICK)
    path = run.path / "actions.bin"
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(veldt.VeldtError, match="episode 0 has actions that CartPole-v1 does not take"):
        record(run.path, 0)
