"""Capabilities: what an algorithm can learn from and act with, declared on its class.

A system names the capabilities that it needs (`config/system_registry.py`). So whether an algorithm fits a system
depends on neither's name.
"""

from __future__ import annotations

from collections.abc import Mapping

ON_POLICY = "on-policy"
REPLAY = "replay"
OFF_POLICY_CORRECTED = "off-policy-corrected"
RECURRENT = "recurrent"
DISCRETE = "discrete-actions"
MULTI_DISCRETE = "multi-discrete-actions"
CONTINUOUS = "continuous-actions"

# Each capability, as the end of "an algorithm that ...".
CAPABILITIES: Mapping[str, str] = {
    ON_POLICY: "learns from each rollout once",
    REPLAY: "learns from transitions that are sampled from a replay buffer",
    OFF_POLICY_CORRECTED: "corrects for the difference between the policy that acted and the policy that learns",
    RECURRENT: "keeps the steps of a rollout in their order, as a recurrent network needs it",
    DISCRETE: "chooses one of a number of actions",
    MULTI_DISCRETE: "makes several discrete choices at once",
    CONTINUOUS: "chooses real numbers",
}

# The capability that each kind of `ActionSpec` needs, and what messages call such actions.
OF_ACTIONS: Mapping[str, tuple[str, str]] = {
    "discrete": (DISCRETE, "discrete"),
    "multi": (MULTI_DISCRETE, "several discrete choices at once"),
    "box": (CONTINUOUS, "continuous"),
}
