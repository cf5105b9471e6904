"""Parts are registered by name: each name once, of the right kind, with known capabilities."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

import veldt
from veldt.algorithms.a2c import A2C, A2CConfig
from veldt.algorithms.base import OffPolicy, OnPolicy
from veldt.algorithms.dqn import DQN, DQNConfig
from veldt.algorithms.ppo import PPO, PPOConfig
from veldt.algorithms.registry import ALGORITHMS
from veldt.algorithms.settings import AlgorithmConfig
from veldt.api import drawn
from veldt.config.fit import check_actions, check_fits, check_recurrent, incompatibility
from veldt.config.system_registry import SYSTEMS
from veldt.config.system_settings import RolesConfig
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.recipes import RECIPES, Recipe, Sourced
from veldt.registry import Registry


@pytest.fixture(autouse=True)
def restored() -> Any:
    """Removes what a test has registered."""
    registries = (ALGORITHMS, SYSTEMS, RECIPES)
    before = [(dict(each), {name: each._origins[name] for name in each}) for each in registries]
    yield
    for registry, (parts, origins) in zip(registries, before, strict=True):
        registry._parts, registry._origins = parts, origins


class Mine(PPO):
    pass


class Confused(PPO):
    capabilities = frozenset({"on-polcy"})


class Spelt(DQN):
    capabilities: Any = "replay"


class Listed(DQN):
    capabilities: Any = ("replay", "discrete-actions")


class NoReplay(DQN):
    capabilities = frozenset({"discrete-actions"})


class Claims(PPO):
    capabilities = frozenset({"replay"})


@dataclass(frozen=True, kw_only=True)
class MySystem(RolesConfig):
    pass


class NotDecorated(PPOConfig):
    quantiles: int = 3


@dataclass(frozen=True, kw_only=True)
class Factory(PPOConfig):
    quantiles: list[int] = field(default_factory=list)
    """Quantiles."""


@dataclass(frozen=True, kw_only=True)
class Untyped(PPOConfig):
    gamma = 0.5  # type: ignore[misc]


@dataclass(frozen=True, kw_only=True)
class NoDefault(PPOConfig):
    quantiles: int


@dataclass(frozen=True, kw_only=True)
class NoFlag(PPOConfig):
    quantiles: list[int] | None = None


def test_a_registered_algorithm_fits_what_its_capabilities_say() -> None:
    veldt.register_algorithm("mine", Mine, PPOConfig)
    assert ALGORITHMS.plugin_of("mine") == __name__
    assert ALGORITHMS.plugin_of("ppo") is None
    for system in SYSTEMS:
        assert (incompatibility(system, "mine") is None) == (incompatibility(system, "ppo") is None)


@pytest.mark.parametrize("algorithm", [Mine, PPO])
def test_an_algorithm_of_a_run_has_its_registered_name(algorithm: Any) -> None:
    """Also where its class has inherited the name of a built-in one, or is that class."""
    veldt.register_algorithm("mine", algorithm, PPOConfig)
    made = RECIPES["ppo"].config("CartPole-v1", "mine").make_algorithm(ActionSpec("discrete", (2,), (0,)))
    assert made.name == "mine"


class Corrected(A2C):
    capabilities = A2C.capabilities | {"off-policy-corrected"}


def test_impala_takes_every_algorithm_that_declares_the_correction() -> None:
    veldt.register_algorithm("mine", Corrected, A2CConfig)
    graph = "\n".join(drawn(RECIPES["impala"].config("CartPole-v1", "mine")))
    assert "unrolls of" in graph


@pytest.mark.parametrize(
    ("name", "algorithm", "settings", "message"),
    [
        ("My PPO", Mine, PPOConfig, "a name is lower-case letters, digits and dashes"),
        (5, Mine, PPOConfig, "^the algorithm is called 5: a name is lower-case letters"),
        ("ppo", Mine, PPOConfig, r"veldt\.algorithms\.builtin has registered one of that name"),
        (
            "mine",
            Mine,
            A2CConfig,
            r"are A2CConfig, and Mine\.__init__ takes PPOConfig: register it with PPOConfig, or",
        ),
        ("mine", PPOConfig, PPOConfig, "must be a subclass of veldt.algorithms.base.OnPolicy or OffPolicy"),
        ("mine", Mine, dict, "must be a dataclass, a subclass of .*AlgorithmConfig"),
        ("mine", DQN, PPOConfig, "must be a dataclass, a subclass of .*OffPolicyConfig"),
        (
            "mine",
            Mine,
            NotDecorated,
            r"'quantiles' of the algorithm mine is not a field .* @dataclass\(frozen=True",
        ),
        ("mine", Mine, NoDefault, "'quantiles' of the algorithm mine has no default value"),
        (
            "mine",
            Mine,
            Factory,
            "'quantiles' of the algorithm mine has a default_factory: give it a default value that",
        ),
        (
            "mine",
            Mine,
            Untyped,
            r"'gamma' of the algorithm mine is set to 0.5 without a type, .*: write `gamma: TYPE = 0.5`",
        ),
        ("mine", Mine, NoFlag, r"'quantiles' of the algorithm mine has the type .*, which cannot be a flag"),
        (
            "mine",
            type("NoPolicy", (OnPolicy,), {"capabilities": {"off-policy-corrected"}}),
            PPOConfig,
            "not a subclass of .*PolicyGradient",
        ),
        ("mine", Confused, PPOConfig, r"'on-polcy' \(did you mean 'on-policy'\?\): known are"),
        (
            "mine",
            Spelt,
            DQNConfig,
            r"has the capabilities 'replay': they must be a set of names, such as frozenset",
        ),
        (
            "mine",
            Listed,
            DQNConfig,
            r"has the capabilities \(.replay., .discrete-actions.\): they must be a set of",
        ),
        ("mine", NoReplay, DQNConfig, "is a subclass of OffPolicy, and lacks the capability 'replay'"),
        ("mine", Claims, PPOConfig, "is not a subclass of OffPolicy, and has the capability 'replay'"),
    ],
)
def test_algorithms_of_another_kind(name: Any, algorithm: Any, settings: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        veldt.register_algorithm(name, algorithm, settings)
    assert "\n" not in str(refused.value)
    assert "mine" not in ALGORITHMS


@pytest.mark.parametrize(
    ("settings", "graph", "needs", "message"),
    [
        (dict, "mine:graph", [], "must be a dataclass, a subclass of .*RolesConfig"),
        (MySystem, 5, [], "must be a function or 'module:function'"),
        (MySystem, "mine:graph", ["repaly"], r"needs the capability 'repaly' \(did you mean 'replay'\?\)"),
        (
            MySystem,
            "mine:graph",
            "replay",
            "the system mine needs 'replay': it must be a list of capabilities",
        ),
        (MySystem, "mine:graph", [5], r"the system mine needs \[5\]: it must be a list of capabilities"),
        (MySystem, "mine:graph", None, "the system mine needs None: it must be a list of capabilities"),
    ],
)
def test_systems_of_another_kind(settings: Any, graph: Any, needs: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        veldt.register_system("mine", settings, graph, needs)


def test_what_fits_a_registered_system() -> None:
    veldt.register_system("mine", MySystem, "mine:graph", needs=["replay", "continuous-actions"])
    assert [name for name in ALGORITHMS if incompatibility("mine", name) is None] == ["ddpg"]
    with pytest.raises(
        UsageError, match=r"^dqn does not fit: the system mine needs .*; take ddpg for continuous actions$"
    ):
        check_fits("mine", "dqn")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "pqo"}, r"the recipe mine has the algorithm 'pqo' \(did you mean 'ppo'\?\)"),
        ({"system": "synchronos"}, r"the recipe mine has the system .*did you mean 'synchronous'"),
        ({"system": "apex"}, "^ppo does not fit: the system apex needs"),
        (
            {"small": {"epoch": Sourced(1, "mine")}},
            r"sets 'epoch' \(did you mean 'epochs'\?\), which neither ppo nor",
        ),
        (
            {"small": {"epoch": Sourced(1, "mine"), "exploration_noise": Sourced(0.1, "mine")}},
            r"sets 'epoch' \(did you mean 'epochs'\?\), 'exploration_noise', which neither ppo nor",
        ),
        (
            {"small": {"gamma": 0.9}},
            r"^the recipe mine sets 'gamma' to 0\.9, a value without a source: give veldt\.Sourced\(0\.9, '",
        ),
        (
            {"presets": {"mujoco": {"epoch": Sourced(1, "mine")}}},
            r"sets 'epoch' \(did you mean 'epochs'\?\), which neither ppo nor",
        ),
        (
            {"presets": {"mujco": {}}},
            r"^the recipe mine has a preset for 'mujco' \(did you mean 'mujoco'\?\): it must be a family of "
            r"environments \(classic_control, box2d, toy_text, mujoco\), the id of an environment",
        ),
        ({"presets": {"Pendulm-v1": {}}}, r"a preset for 'Pendulm-v1' \(did you mean 'Pendulum-v1'\?\)"),
        (
            {"presets": {"ALE/Pong-v5": {}}},
            "a preset for 'ALE/Pong-v5': ALE's games have the values of atari",
        ),
        (
            {"presets": {5: {}}},
            "^the recipe mine has a preset for 5: it must be a string, the name of environments$",
        ),
        (
            {"presets": {"Pendulum-v1": {"gamma": Sourced(7, "mine")}}},
            r"^the recipe mine has a preset for 'Pendulum-v1' that is not allowed: --gamma is 7: it must be in ",
        ),
        (
            {
                "small": {"batch_size": Sourced(90, "mine"), "minibatches": Sourced(3, "mine")},
                "presets": {"box2d": {"minibatches": Sourced(4, "mine")}},
            },
            "^the recipe mine has a preset for 'box2d' that is not allowed: --batch-size 90 does not divide into ",
        ),
        (
            {"small": {"gamma": Sourced("high", "mine")}},
            "^the recipe mine has values of small that are not allowed: --gamma is 'high': it must be a finite ",
        ),
        (
            {"atari": {"gamma": Sourced(7, "mine")}},
            r"^the recipe mine has values of atari that are not allowed: --gamma is 7: it must be in \[0, 1\]$",
        ),
        (
            {"small": {"batch_size": Sourced(6, "mine"), "minibatches": Sourced(4, "mine")}},
            "^the recipe mine has values of small that are not allowed: --batch-size 6 does not divide into ",
        ),
        (
            {"small": {"gamma": Sourced(0.9, "")}},
            "sets 'gamma' with the source '': it must be a string that ",
        ),
        ({"small": None}, "^small of the recipe mine is None: it must be a dict, each key of it a string$"),
        ({"small": ["gamma"]}, r"^small of the recipe mine is \['gamma'\]: it must be a dict"),
        (
            {"atari": {5: Sourced(1, "mine")}},
            "^atari of the recipe mine is {5: .*}: it must be a dict, each ",
        ),
        ({"presets": None}, "^presets of the recipe mine is None: it must be a dict$"),
        (
            {"presets": {"box2d": None}},
            "^the preset 'box2d' of the recipe mine is None: it must be a dict, each ",
        ),
        ({"name": 5}, "^name of the recipe 5 is 5: it must be a string$"),
        ({"summary": None}, "^summary of the recipe mine is None: it must be a string$"),
        ({"base": "ppo"}, "^base of the recipe mine is 'ppo': it must be a Recipe or None$"),
    ],
)
def test_recipes_that_cannot_work(changes: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"algorithm": "ppo", "system": "synchronous", "atari": {}, "small": {}}
    with pytest.raises(UsageError, match=message):
        veldt.register_recipe(Recipe(**{"name": "mine", "summary": "Mine"} | values | changes))
    assert "mine" not in RECIPES


def test_what_is_no_recipe() -> None:
    what: Any = RECIPES["ppo"].small
    with pytest.raises(UsageError, match=r"^register_recipe was given .*: it must be a recipe, "):
        veldt.register_recipe(what)


def test_presets_for_a_family_an_id_and_an_env_of_the_users_own() -> None:
    keys = ("box2d", "Pendulum-v1", "my_envs:make")
    presets = {key: {"gamma": Sourced(0.5 + n / 10, "mine")} for n, key in enumerate(keys)}
    veldt.register_recipe(Recipe("mine", "ppo", "synchronous", "Mine", {}, {}, presets))
    drafts = [
        RECIPES["mine"].draft(env) for env in ("CartPole-v1", "LunarLander-v3", "Pendulum-v1", "my_envs:make")
    ]
    assert [draft.values.get("gamma") for draft in drafts] == [None, 0.5, 0.6, 0.7]


def test_a_module_that_is_imported_again_registers_again() -> None:
    veldt.register_algorithm("mine", Mine, PPOConfig)
    veldt.register_algorithm("mine", Mine, PPOConfig)
    assert ALGORITHMS["mine"].algorithm is Mine


def test_every_algorithm_declares_its_kind() -> None:
    for entry in ALGORITHMS.values():
        assert issubclass(entry.algorithm, OffPolicy) == ("replay" in entry.capabilities)
        assert issubclass(entry.algorithm, OnPolicy) == ("on-policy" in entry.capabilities)
        assert issubclass(entry.settings, AlgorithmConfig)


@pytest.mark.parametrize(
    ("algorithm", "action", "fits"),
    [
        ("ddpg", ActionSpec("box", low=(-1.0,), high=(1.0,)), True),
        ("ddpg", ActionSpec("discrete", (2,), (0,)), False),
        ("c51", ActionSpec("multi", (2, 2), (0, 0)), False),
        ("vtrace", ActionSpec("multi", (2, 2), (0, 0)), True),
    ],
)
def test_actions(algorithm: str, action: ActionSpec, fits: bool) -> None:
    if fits:
        check_actions(algorithm, action)
        return
    with pytest.raises(UsageError, match=f"^{algorithm} cannot choose this environment's actions") as refused:
        check_actions(algorithm, action)
    named = re.search(r"take a recipe that can \((.*?)\)", str(refused.value))
    assert named is not None and "a2c" in named[1]
    for recipe in named[1].split(", "):
        check_actions(RECIPES[recipe].algorithm, action)


def test_a_recurrent_network_is_refused_with_recipes_that_can_train_it() -> None:
    with pytest.raises(
        UsageError, match=r"^--lstm is 8, and dqn learns .* or take a recipe that can \(a2c, .*impala"
    ):
        check_recurrent("dqn", "--lstm is 8")


def test_an_unknown_name() -> None:
    empty: Registry[int] = Registry("thing", "veldt.errors")
    with pytest.raises(UsageError, match=r"^no thing 'x'"):
        empty.find("x")


THREADS = """
import sys, threading
sys.setswitchinterval(1e-6)
from veldt.recipes import RECIPES

found = []
threads = [threading.Thread(target=lambda: found.append(len(RECIPES))) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*found)
"""


def test_the_first_reads_in_several_threads_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == [str(len(RECIPES))] * 4 and not done.stderr
