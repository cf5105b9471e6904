"""A digest of all that decides the results of a run, besides the user's code and the timing of processes."""

from __future__ import annotations

import hashlib
import json

from veldt.config.stored_config import to_dict
from veldt.config.train_config import RESUMABLE, TrainConfig
from veldt.config.versions import versions_for_run
from veldt.runtime.devices import instruction_set

# These decide how long a run trains, and so how its schedules go; the other settings of RESUMABLE only record.
_DECIDES = ("steps", "until")


def plan_digest(config: TrainConfig) -> str:
    """Returns a SHA-256 of a resolved configuration, of the versions, and of the processor's instruction set, in hex.

    On the CPU, two synchronous runs with the same digest, each trained with this plan from start to end, have the same
    results bit for bit. docs/guide/train.md, "Repeat a run", says where a run does not keep to its plan.
    """
    settings = to_dict(config)
    recording = set(RESUMABLE) - set(_DECIDES)
    settings["run"] = {name: value for name, value in settings["run"].items() if name not in recording}
    decides = [settings, versions_for_run(config), instruction_set()]
    return hashlib.sha256(json.dumps(decides, sort_keys=True, default=str).encode()).hexdigest()
