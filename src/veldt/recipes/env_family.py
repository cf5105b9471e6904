"""The families of Gymnasium's environments: a recipe may have settings of its own for each."""

from __future__ import annotations

import gymnasium

# Gymnasium's packages of environments, and their names in text.
FAMILIES = {
    "classic_control": "classic control",
    "box2d": "Box2D",
    "toy_text": "toy text",
    "mujoco": "MuJoCo",
}


def family_of(env: str) -> str | None:
    """Returns the key in FAMILIES of the env with this Gymnasium id; None for any other env.

    Only Gymnasium's registry is read: the env is neither imported nor made, and an unknown id is no error.
    """
    spec = gymnasium.registry.get(env)
    entry = spec.entry_point if spec is not None else None
    if not isinstance(entry, str):
        return None
    return next((name for name in FAMILIES if entry.startswith(f"gymnasium.envs.{name}.")), None)
