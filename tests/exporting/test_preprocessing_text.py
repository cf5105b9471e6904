"""The model card says what happens to observations, as it does happen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import veldt
from run_state import SMALL
from veldt.exporting.card import _graph as graph_section
from veldt.exporting.preprocessing_text import observation_lines
from veldt.exporting.raw_observations import GraphArray

SETTINGS: dict[str, Any] = SMALL | {"steps": 64, "env_backend": "in-process", "quiet": True}


class Pairs(gymnasium.Env[Any, Any]):
    """Observations that are pairs of numbers and a choice; episodes of three steps."""

    def __init__(self, render_mode: str | None = None) -> None:
        numbers = gymnasium.spaces.Box(-9.0, 9.0, (2,), np.float32)
        self.observation_space = gymnasium.spaces.Tuple([numbers, gymnasium.spaces.Discrete(3)])
        self.action_space = gymnasium.spaces.Discrete(2)
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = 3
        return (np.array([7.0, -7.0], np.float32), 1), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        return (np.array([7.0, -7.0], np.float32), 2), 0.0, self._left == 0, False, {}


def test_numbers_of_a_tuple_are_not_called_discrete(tmp_path: Path) -> None:
    run = veldt.train("ppo", env=Pairs, run_dir=tmp_path / "run", **SETTINGS)
    (line,) = observation_lines(veldt.load(run.path))
    assert line == (
        "The observation: flattened as `gymnasium.spaces.flatten` does (a `Discrete` is one-hot, numbers stay), "
        "float32 [5]."
    )


@pytest.mark.parametrize(("no_ops", "said"), [(0, "a no-op"), (1, "a no-op"), (30, "1 to 30 no-ops")])
def test_the_beginning_of_an_atari_game_can_be_made_from_the_card(
    no_ops: int, said: str, tmp_path: Path
) -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != "hidden"}
    settings |= {"env_backend": "atari", "no_ops": no_ops, "random_start_steps": 0}
    run = veldt.train("ppo", env="ALE/Breakout-v5", run_dir=tmp_path / "run", **settings)
    assert any(
        line.startswith(
            f"An episode begins with {said} of one emulator frame, then a step of FIRE if that is the game's second "
            "action, and ends after 27,000 steps"
        )
        for line in observation_lines(veldt.load(run.path))
    )


def test_the_card_s_example_takes_any_name_of_a_field() -> None:
    name = 'observation/the "left" é'
    arrays = {
        "inputs": [GraphArray(name, "float32", (2,), "real numbers")],
        "outputs": [GraphArray("action", "int64", (), "the action")],
    }
    example = next(part for part in graph_section(arrays, ["policy.onnx"]) if part.startswith("```python"))
    given = example.splitlines()[5]
    values: dict[str, Any] = {"np": np}
    exec(given, values)
    assert list(values["inputs"]) == [name]
