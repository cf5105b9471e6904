"""What there is to train: the recipes, and the roles of a configuration."""

from __future__ import annotations

from veldt.config.run_request import RunRequest
from veldt.config.train_config import TrainConfig
from veldt.envs.source import resolve
from veldt.recipes import RECIPES
from veldt.systems.planning.run_plan import make_run_plan


def list_recipes() -> dict[str, str]:
    """Returns the name and a one-line summary of each recipe."""
    return {name: recipe.summary for name, recipe in RECIPES.items()}


def drawn(config: TrainConfig) -> list[str]:
    """Returns lines of text that show the roles of a run with `config` and the edges between them."""
    run_plan = make_run_plan(RunRequest(config, resolve(config.env, config.env_kwargs)))
    return list(run_plan.decisions) if config.in_one_process else run_plan.graph().drawn()
