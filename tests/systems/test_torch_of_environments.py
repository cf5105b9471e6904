"""What an environment or its module sets in torch is there in its next step, and changes nothing in the training."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import veldt
from tiny_runs import TINY
from veldt.user_code.torch_state import users_torch

CODE = """
import gymnasium, numpy as np, torch
{at_import}

class Env(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(2)

    def __init__(self):
        {when_made}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {{}}

    def step(self, action):
        self.steps += 1
        {in_step}
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), float(action), False, self.steps >= 20, {{}}
"""
SET = {
    "no gradients": ("torch.set_grad_enabled(False)", "assert not torch.is_grad_enabled()"),
    "float64": ("torch.set_default_dtype(torch.float64)", "assert torch.zeros(1).dtype == torch.float64"),
    "device": ("torch.set_default_device('meta')", "assert torch.zeros(1).device.type == 'meta'"),
    "threads": ("torch.set_num_threads(2)", ""),
}
Write = Callable[..., str]
PLAIN = CODE.format(at_import="", when_made="pass", in_step="")


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> list[torch.Tensor]:
    """The weights of a run whose environment sets nothing."""
    module: dict[str, Any] = {}
    exec(PLAIN, module)
    return weights(module["Env"], tmp_path_factory.mktemp("without") / "run")


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a module with an environment, and returns the environment's name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []

    def write(at_import: str = "", when_made: str = "pass", in_step: str = "") -> str:
        names.append(f"of_torch_{tmp_path.name}_{len(names)}".replace("-", "_"))
        code = CODE.format(at_import=at_import, when_made=when_made, in_step=in_step)
        (tmp_path / f"{names[-1]}.py").write_text(code)
        return f"{names[-1]}:Env"

    yield write
    for name in names:
        sys.modules.pop(name, None)
    users_torch.__dict__.clear()


def weights(env: Any, run_dir: Path, recipe: str = "ppo", **settings: Any) -> list[torch.Tensor]:
    options: dict[str, Any] = {"steps": 256, "hidden": (8,), "num_envs": 4, "threads": 1}
    run = veldt.train(
        recipe,
        env=env,
        run_dir=run_dir,
        seed=1,
        quiet=True,
        **((TINY if recipe == "ppo" else options) | settings),
    )
    assert run.summary["steps"] >= 256
    agent = veldt.load(run.path, env=None if isinstance(env, str) else env)
    return [parameter.detach() for parameter in agent.network.parameters()]


PLACES = [(what, place) for what in SET for place in ("at_import", "when_made", "in_step")]


@pytest.mark.parametrize(("what", "place"), PLACES)
def test_the_weights_are_the_same(
    write: Write, without: list[torch.Tensor], what: str, place: str, tmp_path: Path
) -> None:
    sets, holds = SET[what]
    env = write(**({"in_step": holds} | {place: f"{sets}; {holds}"}))
    before = torch.get_num_threads()
    for one, other in zip(without, weights(env, tmp_path / "with"), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
    assert torch.get_default_device() == torch.device("cpu") and torch.get_num_threads() == before


@pytest.mark.parametrize("mode", ["inference_mode()", "autocast('cpu')"])
def test_a_mode_that_an_environment_has_not_ended_is_named(write: Write, mode: str, tmp_path: Path) -> None:
    """The loss would be blamed for the first, and the second would change the training without a word."""
    begins = (
        f"self.mode = getattr(self, 'mode', None) or torch.{mode}; self.steps == 5 and self.mode.__enter__()"
    )
    env = write(in_step=begins)
    with (
        ThreadPoolExecutor(1) as thread,  # a mode is that of its thread, and ends with it
        pytest.raises(
            veldt.UsageError, match=rf"^torch\.{re.escape(mode)} is on in the process that trains, "
        ),
    ):
        # One env: the mode of a second one, garbage in another thread, would begin there what the first has left on.
        thread.submit(weights, env, tmp_path / "run", num_envs=1).result()


@pytest.mark.parametrize("recipe", ["impala", "a2c"])
def test_the_roles_of_other_processes_import_the_module(write: Write, recipe: str, tmp_path: Path) -> None:
    env = write(at_import="; ".join(sets for sets, _ in SET.values()))
    weights(env, tmp_path / "run", recipe, **({"learners": 2} if recipe == "a2c" else {"actors": 2}))
