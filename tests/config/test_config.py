"""The configuration: every setting is read, bad values are refused with the value, and a stored one round-trips."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import json
import re
import typing
from pathlib import Path
from typing import Any

import pytest

import veldt
from veldt.algorithms.a2c import A2CConfig
from veldt.algorithms.policy_gradient import PolicyGradientConfig
from veldt.algorithms.ppo import PPOConfig
from veldt.algorithms.registry import ALGORITHMS
from veldt.algorithms.rmsprop import RMSPropConfig
from veldt.algorithms.vtrace import VTraceConfig
from veldt.config.stored_config import from_dict, to_dict
from veldt.config.train_config import NetworkConfig, RunConfig, TrainConfig
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.errors import CheckpointError, UsageError
from veldt.recipes import RECIPES, plain_recipes
from veldt.recipes.overrides import with_settings
from veldt.setting_metadata import Unit

CONFIGS: list[type[Any]] = [
    TrainConfig,
    RunConfig,
    NetworkConfig,
    PolicyGradientConfig,
    RMSPropConfig,
    A2CConfig,
    PPOConfig,
    VTraceConfig,
    EnvConfig,
    AtariConfig,
]
# The names under which source code holds a configuration.
HOLDERS = {"config", "_config", "run", "learn", "network", "envs", "atari", "named"}


def own_fields(cls: type[Any]) -> list[dataclasses.Field[Any]]:
    """Fields that the class itself declares."""
    return [field for field in dataclasses.fields(cls) if field.name in cls.__annotations__]


def settings_read() -> set[str]:
    """Names read as attributes of a configuration, or as schedules of one, anywhere in the package, outside the
    configurations' own checks."""
    names = {cls.__name__ for cls in CONFIGS}
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.ClassDef) and node.name in names:
            # Methods other than the check use settings like anyone else.
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name != "__post_init__":
                    found.update(
                        inner.attr
                        for inner in ast.walk(part)
                        if isinstance(inner, ast.Attribute) and ast.unparse(inner.value) == "self"
                    )
            return
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            holder = ast.unparse(node.value).rpartition(".")[2]
            if holder in HOLDERS:
                found.add(node.attr)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "make_schedule":
            found.add(ast.literal_eval(node.args[1]))
        for child in ast.iter_child_nodes(node):
            visit(child)

    for path in Path(veldt.__file__).parent.rglob("*.py"):
        visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def test_every_setting_is_read() -> None:
    read = settings_read()
    dead = [f"{cls.__name__}.{f.name}" for cls in CONFIGS for f in own_fields(cls) if f.name not in read]
    assert dead == []


def test_every_setting_has_a_docstring() -> None:
    """A docstring for the command line's help, and a unit for every number (a seed has none)."""
    for cls in CONFIGS[1:]:
        source = Path(typing.cast(str, __import__(cls.__module__, fromlist=["_"]).__file__)).read_text(
            "utf-8"
        )
        body = next(
            n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ClassDef) and n.name == cls.__name__
        )
        hints = typing.get_type_hints(cls, include_extras=True)
        for field in own_fields(cls):
            at = next(
                i
                for i, part in enumerate(body.body)
                if isinstance(part, ast.AnnAssign) and ast.unparse(part.target) == field.name
            )
            said = body.body[at + 1]
            assert isinstance(said, ast.Expr), f"{cls.__name__}.{field.name} has no docstring"
            if type(field.default) in (int, float) and field.name != "seed":
                extras = getattr(hints[field.name], "__metadata__", ())
                assert any(isinstance(extra, Unit) for extra in extras), f"{field.name} has no unit"


REFUSED: list[tuple[type[Any], dict[str, Any]]] = [
    (RunConfig, {"steps": 0}),
    (RunConfig, {"steps": -5}),
    (RunConfig, {"checkpoint_every": 0}),
    (RunConfig, {"keep_checkpoints": 0}),
    (RunConfig, {"seed": -1}),
    (RunConfig, {"threads": -2}),
    (RunConfig, {"threads": 100000}),
    (RunConfig, {"log_every": -0.5}),
    (RunConfig, {"precision": "fp8"}),
    (NetworkConfig, {"hidden": ()}),
    (NetworkConfig, {"hidden": 64}),
    (NetworkConfig, {"hidden": ("64",)}),
    (NetworkConfig, {"hidden": (64, 0)}),
    (NetworkConfig, {"network": ""}),
    (NetworkConfig, {"lstm": -1}),
    (NetworkConfig, {"lstm": 0.5}),
    (EnvConfig, {"num_envs": 0}),
    (EnvConfig, {"processes": -1}),
    (EnvConfig, {"processes": 17}),
    (EnvConfig, {"env_timeout": 0.0}),
    (EnvConfig, {"random_start_steps": -1}),
    (EnvConfig, {"env_backend": "threads"}),
    (EnvConfig, {"alternate": "yes"}),
    (EnvConfig, {"resets": "waits"}),
    (EnvConfig, {"on_env_error": "restrat"}),
    (AtariConfig, {"frame_skip": 0}),
    (AtariConfig, {"frame_stack": 0}),
    (AtariConfig, {"max_episode_steps": 0}),
    (AtariConfig, {"no_ops": -1}),
    (AtariConfig, {"sticky_actions": 1.0}),
    (AtariConfig, {"sticky_actions": -0.25}),
    (AtariConfig, {"preprocessing": "84x48"}),
    *((cls, {"gamma": value}) for cls in (A2CConfig, PPOConfig) for value in (-0.1, 1.01)),
    *((cls, {"gae_lambda": 1.5}) for cls in (A2CConfig, PPOConfig)),
    *((cls, {"learning_rate": 0.0}) for cls in (A2CConfig, PPOConfig)),
    *((cls, {"ent_coef": -0.01}) for cls in (A2CConfig, PPOConfig)),
    *((cls, {"vf_coef": -0.5}) for cls in (A2CConfig, PPOConfig)),
    *((cls, {"max_grad_norm": -1.0}) for cls in (A2CConfig, PPOConfig)),
    (A2CConfig, {"horizon": 0}),
    (A2CConfig, {"rmsprop_decay": 1.0}),
    (A2CConfig, {"rmsprop_decay": -0.5}),
    (A2CConfig, {"rmsprop_epsilon": 0.0}),
    (A2CConfig, {"scale_learning_rate": "linear"}),
    (VTraceConfig, {"gae_lambda": 1.01}),
    (VTraceConfig, {"horizon": 0}),
    (VTraceConfig, {"rho_bar": 0.0}),
    (VTraceConfig, {"c_bar": -1.0}),
    (VTraceConfig, {"optimiser": "sgd"}),
    (VTraceConfig, {"adam_epsilon": 0.0}),
    (VTraceConfig, {"rmsprop_decay": 1.0}),
    (PPOConfig, {"batch_size": 0}),
    (PPOConfig, {"epochs": 0}),
    (PPOConfig, {"minibatches": 0}),
    (PPOConfig, {"batch_size": 1000, "minibatches": 3}),
    (PPOConfig, {"batch_size": 8, "minibatches": 8}),
    (PPOConfig, {"clip": 0.0}),
    (PPOConfig, {"adam_epsilon": 0.0}),
    (PPOConfig, {"adam_beta_1": 1.0}),
]


@pytest.mark.parametrize(
    ("cls", "values"), REFUSED, ids=[f"{cls.__name__}{list(values.items())}" for cls, values in REFUSED]
)
def test_a_bad_value_is_refused_with_its_flag_and_itself(cls: type[Any], values: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refusal:
        cls(**values)
    for name, value in values.items():
        assert f"--{name.replace('_', '-')}" in str(refusal.value)
        assert _as_typed(value) in str(refusal.value)


def _as_typed(value: Any) -> str:
    """Returns a value as a command line has it."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "empty"
    return str(value)


def test_a_misspelt_choice_is_suggested() -> None:
    with pytest.raises(
        UsageError, match=r"--on-env-error is 'restrat' \(did you mean 'restart'\?\): .*stop, restart"
    ):
        EnvConfig(on_env_error="restrat")  # type: ignore[arg-type]


def test_alternating_needs_two_envs() -> None:
    with pytest.raises(UsageError, match="--alternate on needs at least 2 envs"):
        EnvConfig(alternate="on", num_envs=1)


def test_values_at_the_edge_are_allowed() -> None:
    A2CConfig(gamma=0.0, gae_lambda=0.0, ent_coef=0.0, vf_coef=0.0, max_grad_norm=0.0, rmsprop_decay=0.0)
    PPOConfig(gamma=1.0, gae_lambda=1.0, batch_size=1, minibatches=1, epochs=1, normalise_advantages=False)
    EnvConfig(num_envs=1, processes=1)
    AtariConfig(no_ops=0, sticky_actions=0.25, frame_skip=1, frame_stack=1)
    RunConfig(steps=1, seed=0, log_every=0.0)


def test_configurations_are_frozen() -> None:
    for config in (RunConfig(), A2CConfig(), NetworkConfig()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            config.seed = config.horizon = config.hidden = 3  # type: ignore[union-attr]


def stored(recipe: str = "ppo", env: str = "CartPole-v1") -> tuple[TrainConfig, dict[str, Any]]:
    """A configuration with nothing at its default where that could hide a loss, and what is written of it."""
    config = with_settings(
        RECIPES[recipe].config(env),
        {
            "until": 475.5,
            "hidden": (7, 5),
            "seed": 11,
            "precision": "bf16",
            "random_start_steps": 3,
            "frame_stack": 2,
        },
    )
    config = dataclasses.replace(config, env_kwargs={"sizes": [1, 2], "inner": {"a": None, "b": True}})
    return config, json.loads(json.dumps(to_dict(config)))


@pytest.mark.parametrize("recipe", plain_recipes())
@pytest.mark.parametrize("env", ["CartPole-v1", "ALE/Pong-v5"])
def test_a_configuration_round_trips_through_json(recipe: str, env: str) -> None:
    config, values = stored(recipe, env)
    again = from_dict(values)
    assert again == config
    assert type(again.learn) is type(config.learn)
    assert isinstance(again.network.hidden, tuple)
    assert again.env_kwargs["sizes"] == [1, 2]
    assert from_dict(to_dict(again)) == again


def test_reading_does_not_change_its_input() -> None:
    _, values = stored()
    before = json.dumps(values)
    from_dict(values)
    assert json.dumps(values) == before


@pytest.mark.parametrize("section", ["", "run", "learn", "network", "envs", "atari"])
def test_an_unknown_field_is_refused(section: str) -> None:
    _, values = stored()
    (values[section] if section else values)["warp_factor"] = 9
    with pytest.raises(CheckpointError, match="'warp_factor'"):
        from_dict(values)


@pytest.mark.parametrize("field", ["env", "recipe"])
def test_a_missing_field_is_refused(field: str) -> None:
    _, values = stored()
    del values[field]
    with pytest.raises(CheckpointError, match=f"lacks the field '{field}'"):
        from_dict(values)


def test_a_field_of_a_changed_plugin_is_its_module_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of veldt would not have it, either."""
    _, values = stored()
    now = dataclasses.make_dataclass(
        "Mine", [("patience", int)], bases=(PPOConfig,), kw_only=True, frozen=True
    )
    now.__module__ = "my_plugin"
    entry = dataclasses.replace(ALGORITHMS["ppo"], settings=now)
    monkeypatch.setitem(ALGORITHMS._parts, values["algorithm"], entry)
    changed = "its module my_plugin has changed since the run began"
    with pytest.raises(CheckpointError, match=f"lacks the field 'patience', which Mine needs: {changed}"):
        from_dict(values)
    values["learn"]["warp_factor"] = 9
    with pytest.raises(CheckpointError, match=f"has the field 'warp_factor', which Mine lacks: {changed}"):
        from_dict(values)


@pytest.mark.parametrize("algorithm", ["alphago", None])
def test_an_unknown_algorithm_is_refused(algorithm: str | None) -> None:
    _, values = stored()
    values["algorithm"] = algorithm
    with pytest.raises(
        CheckpointError, match=f"names the algorithm {algorithm!r}, which is not registered here"
    ):
        from_dict(values)


@pytest.mark.parametrize(
    ("plugins", "said"),
    [
        (["my_plugin"], "which my_plugin (the run's plug-ins) did not register: they have changed since"),
        (["__main__"], "which is not registered here: name the module that registers it"),
    ],
)
def test_a_name_that_a_plugin_does_not_register_any_more_is_the_plugin_s(
    plugins: list[str], said: str
) -> None:
    _, values = stored()
    values |= {"algorithm": "theirs", "plugins": plugins}
    with pytest.raises(CheckpointError, match=re.escape(said)):
        from_dict(values)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"algorithm": ...}, "lacks the field 'algorithm': config.json is not as veldt wrote it"),
        (
            {"system": ["x"]},
            "names the system ['x'], which is not registered here: name the module that registers it",
        ),
        ({"learn": ...}, "lacks the section 'learn': config.json is not as veldt wrote it"),
        (
            {"learn": "x"},
            "has the section 'learn' with the value 'x', which is not a JSON object: config.json is not",
        ),
        (
            {"run": [10**5000]},
            "has the section 'run' with the value a list with a number of more than 4,300 digits",
        ),
        (
            {"roles": 3},
            "has the section 'roles' with the value 3, which is not a JSON object: config.json is not",
        ),
        (
            {"run": {"steps": "x"}},
            "cannot be used (see config.json): --steps is 'x': it must be a whole number",
        ),
        (
            {"learn": {"gamma": 10**400}},
            "cannot be used (see config.json): --gamma is a number of 401 digits",
        ),
        ({"env": 5}, "cannot be used (see config.json): --env is 5: it must be a string"),
        ({"replay": {}}, "cannot be used (see config.json): the algorithm ppo learns from fresh rollouts"),
    ],
    ids=itertools.count(),
)
def test_a_value_that_veldt_does_not_write_is_refused(change: dict[str, Any], said: str) -> None:
    _, values = stored()
    values = {name: value for name, value in {**values, **change}.items() if value is not ...}
    with pytest.raises(CheckpointError) as refused:
        from_dict(values)
    assert str(refused.value).startswith(f"the run's configuration {said}")


def test_settings_are_sorted_into_their_sections() -> None:
    config = with_settings(RECIPES["ppo"].config("CartPole-v1"), {"seed": 5, "clip": 0.3, "num_envs": 32})
    assert (config.run.seed, config.learn.clip, config.envs.num_envs) == (5, 0.3, 32)  # type: ignore[union-attr]


def test_a_setting_of_no_section_is_refused_with_a_suggestion() -> None:
    config = RECIPES["ppo"].config("CartPole-v1")
    with pytest.raises(UsageError, match=r"no setting 'learning_rat' \(did you mean 'learning_rate'\?\)"):
        with_settings(config, {"learning_rat": 1e-3})
    with pytest.raises(UsageError, match=r"^--rmsprop-decay is none of ppo's settings"):
        with_settings(config, {"rmsprop_decay": 0.9})


def test_no_name_means_two_settings() -> None:
    """A setting is given by its name alone, so the name has to be unique."""
    for recipe in plain_recipes().values():
        config = recipe.config("CartPole-v1")
        parts = [getattr(config, section) for section in ("run", "learn", "network", "envs", "atari")]
        names = [field.name for part in parts for field in dataclasses.fields(part)]
        assert len(names) == len(set(names))
