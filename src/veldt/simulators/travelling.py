"""A trajectory slot on its way from who filled it to who stores or learns from it: the arrays that travel, and a view.

Rows go as they are (see `trajectory`), with what whoever acted has to say of them besides. What only simulators need
(resets in the pause, stacks) stays behind.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veldt.runtime.shared import Layout
from veldt.simulators.spec import SimulatorSpec
from veldt.simulators.trajectory import ROW_FIELDS, STEP_FLAGS, Trajectory

Arrays = Mapping[str, np.ndarray]
_STEPS = ("action", "reward", "version")


def travelling_layouts(spec: SimulatorSpec, steps: int, width: int) -> dict[str, Layout]:
    """Of a slot of `steps` rows of `width` simulators."""
    layouts = {
        f"observation/{name}": Layout((spec.history + steps + 1, width, *field.shape), field.dtype)
        for name, field in spec.observation.items()
    }
    layouts |= {name: Layout((steps + 1, width), dtype) for name, dtype in ROW_FIELDS.items()}
    layouts["flags"] = Layout((steps, len(STEP_FLAGS), width), "bool")
    layouts["action"] = Layout((steps, width, *spec.action.shape), spec.action.dtype)
    return layouts | {"reward": Layout((steps, width), "float32"), "version": Layout((steps, width), "int64")}


def send(slot: Trajectory, arrays: Arrays) -> None:
    """Copies a full slot into the arrays that travel."""
    for name, array in slot.observation.items():
        np.copyto(arrays[f"observation/{name}"], array)
    for name in (*ROW_FIELDS, "flags", *_STEPS):
        np.copyto(arrays[name], getattr(slot, name))


class Received:
    """The arrays that travelled, as a slot: with the names of `Trajectory`, and its shapes."""

    def __init__(self, spec: SimulatorSpec, arrays: Arrays) -> None:
        self.spec, self.history = spec, spec.history
        self.observation = {name: arrays[f"observation/{name}"] for name in spec.observation}
        self.age, self.ended, self.episode = arrays["age"], arrays["ended"], arrays["episode"]
        self.action, self.reward, self.version = (arrays[name] for name in _STEPS)
        self.flags = arrays["flags"]
        self.terminated, self.truncated, self.life_lost, self.cut, self.valid = self.flags.swapaxes(0, 1)
        self.steps, self.width = self.reward.shape
