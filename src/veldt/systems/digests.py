"""Short numbers by which learners see whether they have the same."""

from __future__ import annotations

import hashlib
import json

from veldt.config import TrainConfig, to_dict
from veldt.networks.flat import FlatParameters


def digest_of(config: TrainConfig) -> int:
    """Of all settings, an int64."""
    return _digest(json.dumps(to_dict(config), sort_keys=True).encode())


def digest_of_weights(parameters: FlatParameters) -> int:
    """Of every bit of the parameters, an int64; it waits for the device."""
    return _digest(parameters.master.cpu().numpy().tobytes())


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)
