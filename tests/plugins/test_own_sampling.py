"""A sampling strategy of a plug-in draws the batches of every system that has a replay buffer."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import veldt
from documentation import ROOT, write_files
from run_state import SMALL_REPLAYED, assert_same_run, state_of
from veldt.envs.spec import ActionSpec, ArraySpec, EnvSpec
from veldt.errors import PluginError, UsageError, VeldtError
from veldt.replay.archive import ReplayArchive
from veldt.replay.buffer import ReplayBuffer
from veldt.replay.checked_strategy import CheckedStrategy
from veldt.replay.sampling_strategy import Uniform
from veldt.replay.settings import NStep, ReplayConfig
from veldt.replay.snapshot import restore_state, state
from veldt.tracking.metrics import read_metrics

SETTINGS: dict[str, Any] = SMALL_REPLAYED | {
    "env": "environments:scripted",
    "steps": 300,
    "checkpoint_every": 100,
    "keep_checkpoints": 4,
    "learning_rate": 1e-3,
    "quiet": True,
}


@pytest.fixture(autouse=True)
def plugin() -> Any:
    """Imported anew for each test, which forgets what it registers."""
    return importlib.import_module("own_sampling")


class Ring:
    """Two envs with rooms for 4 rows: of the first, rows 2 to 4, without 3; of the second, row 0."""

    rows = 4
    valid = np.array([[True, False, True, False], [True, True, True, True]])
    sampleable = 3
    first = np.array([2, 0])
    end = np.array([5, 1])


SAMPLEABLE = [0, 2, 4]


def checked(**members: Any) -> CheckedStrategy:
    """A strategy with these methods, each of which returns the value that is given."""
    methods = {name: lambda *_, value=value: value for name, value in members.items()}
    if "mass" in methods:
        methods["mass"] = property(methods["mass"])  # type: ignore[assignment]
    return CheckedStrategy("twin-uniform", type("Mine", (veldt.SamplingStrategy,), methods)(Ring()))


def test_each_sampleable_row_is_accepted_and_no_other() -> None:
    for position in range(-9, 17):
        strategy = checked(sample=(np.array([position]), np.ones(1)))
        if position in SAMPLEABLE:
            assert strategy.sample(1, 0)[0] == position
        else:
            with pytest.raises(UsageError, match="draw only valid rows from"):
                strategy.sample(1, 0)


@pytest.mark.parametrize(
    ("drawn", "said"),
    [
        (None, r"is None: return the positions \[2\] and their masses \[2\], two arrays"),
        (np.zeros((2, 2)), "two arrays"),
        ((np.zeros(2), np.ones(2)), r"return 2 positions, an array of whole numbers \[2\]"),
        ((np.zeros(3, int), np.ones(3)), "return 2 positions"),
        (([[0], [0, 2]], np.ones(2)), r"is \[\[0\], \[0, 2\]\]: return 2 positions"),
        ((np.zeros(2, int), np.ones(3)), r"return 2 masses, an array of real numbers \[2\]"),
        ((np.zeros(2, int), torch.ones(2, requires_grad=True)), r"is tensor\(.*: return 2 masses"),
        ((np.zeros(2, int), np.ones(2, complex)), "return 2 masses"),
        ((np.zeros(2, int), np.array(["a", "b"])), "return 2 masses"),
        ((np.zeros(2, int), np.array([1.0, 0.0])), "return finite masses above 0"),
        ((np.zeros(2, int), np.array([1.0, np.nan])), "return finite masses above 0"),
    ],
)
def test_what_is_no_draw_is_one_sentence(drawn: Any, said: str) -> None:
    where = r"^sample of the sampling strategy 'twin-uniform' \(module own_sampling\)"
    with pytest.raises(UsageError, match=f"{where} .*{said}"):
        checked(sample=drawn).sample(2, 0)


@pytest.mark.parametrize("mass", ["many", 0.0, float("nan"), None])
def test_what_is_no_mass_is_one_sentence(mass: Any) -> None:
    with pytest.raises(UsageError, match=r"^mass of the .* is .*: it must be the sum of the masses"):
        checked(mass=mass).mass  # noqa: B018


@pytest.mark.parametrize("state", [None, [1], {"n": [1, 2]}, {1: np.zeros(2)}])
def test_what_is_no_state_is_one_sentence(state: Any) -> None:
    with pytest.raises(UsageError, match=r"^state of the .* is .*: return a dictionary of arrays"):
        checked(state=state).state()


@pytest.mark.parametrize("dtype", ["object", "U3", "complex128", "M8[s]"])
def test_a_state_that_no_checkpoint_takes_is_one_sentence(dtype: str) -> None:
    said = rf"^the array 'n' in the state of the .* is {re.escape(str(np.dtype(dtype)))}: a checkpoint takes"
    with pytest.raises(UsageError, match=said):
        checked(state={"n": np.empty(2, dtype)}).state()


def test_a_state_does_not_change_while_it_is_written() -> None:
    counts = np.zeros(2, np.int64)
    saved = checked(state={"counts": counts}).state()
    counts += 1
    assert saved["counts"].tolist() == [0, 0]


def buffer_of(strategy: str) -> ReplayBuffer:
    return ReplayBuffer(
        EnvSpec({"": ArraySpec((1,), "float32")}, ActionSpec("discrete", sizes=(2,), start=(0,))),
        2,
        ReplayConfig(buffer_size=20, replay=strategy),
        NStep(1, 0.9, False, False),
    )


def test_a_strategy_without_a_state_restores_nothing(plugin: Any) -> None:
    given: list[Any] = []

    class Stateless(veldt.SamplingStrategy):
        def sample(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
            raise AssertionError

        def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
            given.append(dict(arrays))

    veldt.register_sampling_strategy("stateless", Stateless)
    buffer = buffer_of("stateless")
    restore_state(buffer, state(buffer))
    assert given == [{}]


def test_a_state_that_is_not_restored_is_not_a_damaged_checkpoint(tmp_path: Path) -> None:
    archive = ReplayArchive(tmp_path, buffer_of("twin-prioritised"))
    rows, arrays = archive.capture()
    changed = {name: array for name, array in arrays.items() if name != "sampling/largest"}
    with pytest.raises(
        PluginError, match=r"^the .*'twin-prioritised' .* failed to restore .*: KeyError: 'largest'"
    ):
        ReplayArchive(tmp_path, buffer_of("twin-prioritised")).restore(archive.write(rows), changed)


@pytest.mark.parametrize("given", [[0.5, 2.0], [0.5, np.nan]])
def test_new_priorities_are_valid_and_float64(given: list[float], plugin: Any) -> None:
    got: list[np.ndarray] = []

    buffer = buffer_of("twin-uniform")
    buffer.index.update = lambda position_N, priority_N: got.append(priority_N)  # type: ignore[method-assign]
    buffer.ring.head[:] = 3
    key_N, priority_N = np.array([0, 1]), np.array(given, np.float32)
    if np.isnan(given).any():
        with pytest.raises(VeldtError, match="1 of 2 priorities are not allowed, the first is nan"):
            buffer.update(key_N, priority_N)
        assert not got
    else:
        buffer.update(key_N, priority_N)
        assert got[0].dtype == np.float64 and got[0].tolist() == given


def test_the_example_draws_new_rows_more_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(ROOT / "docs" / "extend" / "replay.md", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    drawn_N, mass_N = importlib.import_module("recent").Recent(Ring()).sample(4_000, 1)
    assert set(drawn_N.tolist()) == set(SAMPLEABLE) and (mass_N == 1).all()
    # Of the first env, the ages 0 to 3, 1 of which is row 3, are three equal parts of the rows' numbers.
    newest, oldest = (drawn_N == 0).sum(), (drawn_N == 2).sum()
    assert newest / oldest == pytest.approx((1 / 3) ** (1 / 3) / (1 - (2 / 3) ** (1 / 3)), rel=0.1)


@pytest.mark.parametrize("strategy", ["uniform", "prioritised"])
def test_the_same_strategy_under_another_name_learns_the_same(strategy: str, tmp_path: Path) -> None:
    own, twin = tmp_path / strategy, tmp_path / f"twin-{strategy}"
    for run in (own, twin):
        veldt.train("dqn", replay=run.name, run_dir=run, **SETTINGS)
    assert_same_run(own, twin)


def test_its_state_is_part_of_checkpoints(tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    veldt.train("dqn", replay="twin-prioritised", run_dir=whole, **SETTINGS)
    assert any(name.endswith("sampling/leaves") for name in state_of(whole))
    shutil.copytree(whole, run)
    for later in sorted((run / "checkpoints").iterdir())[1:]:
        shutil.rmtree(later)
    veldt.resume(run, quiet=True)
    assert_same_run(whole, run)


@pytest.mark.parametrize(
    ("recipe", "strategy", "settings"),
    [
        ("apex-dqn", "twin-prioritised", {"actors": 2, "shards": 2}),
        ("gorila", "twin-uniform", {"learners": 2}),
        ("dqn", "twin-prioritised", {"learners": 2}),
    ],
)
def test_it_draws_in_every_process(
    recipe: str, strategy: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    of_phases = ("env_backend", "horizon") if recipe == "apex-dqn" else ()
    common = {name: value for name, value in SETTINGS.items() if name not in of_phases}
    run = veldt.train(recipe, replay=strategy, run_dir=tmp_path / "run", **common | settings)
    assert json.loads((run.path / "config.json").read_text())["resolved"]["plugins"] == ["own_sampling"]
    last = read_metrics(run.path)[-1]
    assert next(value for name, value in last.items() if name.rpartition("/")[2] == "updates") > 0
    assert ("replay/dropped_priorities" in last) == (strategy == "twin-prioritised")


def test_a_wrong_draw_ends_the_run(plugin: Any, tmp_path: Path) -> None:
    class Wrong(veldt.SamplingStrategy):
        def sample(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
            return np.full(count, -1), np.ones(count)

    veldt.register_sampling_strategy("wrong", Wrong)
    with pytest.raises(
        UsageError, match=r"sample of the sampling strategy 'wrong' .* is -1: draw only valid"
    ):
        veldt.train("dqn", replay="wrong", run_dir=tmp_path / "run", **SETTINGS)


def test_what_is_no_strategy_is_refused(plugin: Any) -> None:
    for strategy, said in (
        (object, "must be a subclass of veldt.SamplingStrategy"),
        (type("Lacks", (veldt.SamplingStrategy,), {}), "is Lacks, which does not define sample: do so"),
        (
            type("Asks", (Uniform,), {"uses_priorities": property(lambda _: False)}),
            "uses_priorities of the sampling strategy mine is <property .*: give the class Asks True or False",
        ),
    ):
        with pytest.raises(UsageError, match=said):
            veldt.register_sampling_strategy("mine", strategy)


def test_an_unknown_name_is_refused(plugin: Any) -> None:
    with pytest.raises(
        UsageError, match=r"--replay is 'uniforn' \(did you mean 'uniform'\?\): known are uniform, prior"
    ):
        ReplayConfig(replay="uniforn")
