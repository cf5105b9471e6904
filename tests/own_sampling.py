"""A plug-in with veldt's own sampling strategies under other names."""

from __future__ import annotations

import veldt
from veldt.replay.sampling_strategy import Prioritised, Uniform

veldt.register_sampling_strategy("twin-uniform", type("TwinUniform", (Uniform,), {}))
veldt.register_sampling_strategy("twin-prioritised", type("TwinPrioritised", (Prioritised,), {}))
