"""What a program has set in torch does not change a run, and a run does not change it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

import veldt
from tiny_runs import TINY
from veldt.agent import make_network
from veldt.runtime.usual_torch import usual_torch


@contextmanager
def _default_type() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def _default_device() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
        assert torch.get_default_device() == torch.device("meta")
    finally:
        torch.set_default_device(None)


SURROUNDINGS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "default type": _default_type,
    "default device": _default_device,
    "within a device": lambda: torch.device("meta"),
    "no gradients": torch.no_grad,
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}


def _trained_and_played(run_dir: Path) -> tuple[float, float, float, np.ndarray]:
    run = veldt.train("ppo", env="CartPole-v1", seed=1, run_dir=run_dir, quiet=True, **TINY)
    veldt.resume(run.path, steps=TINY["steps"] + 128, quiet=True)
    agent = veldt.load(run.path)
    observation = np.zeros(4, np.float32)
    agent.act(observation)
    played = veldt.evaluate(agent, episodes=2).mean
    probabilities = agent.distribution(observation)["probabilities"]
    return run.summary["ep_return_mean"], played, agent.value(observation), probabilities


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[float, float, float, np.ndarray]:
    return _trained_and_played(tmp_path_factory.mktemp("usual") / "run")


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_a_run_and_its_agent_are_the_same(
    surroundings: str, usual: tuple[float, float, float, np.ndarray], tmp_path: Path
) -> None:
    with SURROUNDINGS[surroundings]():
        *numbers, probabilities = _trained_and_played(tmp_path / "run")
    assert numbers == list(usual[:3])
    np.testing.assert_array_equal(probabilities, usual[3])


def test_networks_that_two_threads_make_at_once(tmp_path: Path) -> None:
    run = veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, **TINY)
    agent = veldt.load(run.path)
    config, spec = agent.config, agent.spec
    before = torch.get_rng_state()
    alone = make_network(config, spec).state_dict()
    different: list[str] = []

    def make() -> None:
        for _ in range(30):
            made = make_network(config, spec).state_dict()
            different.extend(name for name, tensor in made.items() if not torch.equal(tensor, alone[name]))

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not different and torch.equal(torch.get_rng_state(), before)


def test_the_default_type_after_calls_that_overlap() -> None:
    """It is that of all threads: the second call finds the first one's, and ends after it."""
    first, second = usual_torch(), usual_torch()
    with _default_type():
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert torch.get_default_dtype() == torch.float32
        second.__exit__(None, None, None)
        assert torch.get_default_dtype() == torch.float64


def test_the_number_of_threads_is_as_it_was(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        veldt.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, **TINY)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
