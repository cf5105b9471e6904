"""Digests by which learners check that they have the same settings and parameters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from veldt.config.stored_config import to_dict
from veldt.config.train_config import TrainConfig
from veldt.networks.flat import FlatParameters
from veldt.runs.machine import versions


def config_digests(config: TrainConfig) -> dict[str, int]:
    """Returns int64 digests of all settings, and of the versions of the packages that results depend on, by name."""
    return {"settings": _of_values(to_dict(config)), "versions": _of_values(versions())}


def weights_digest(parameters: FlatParameters) -> int:
    """Returns an int64 digest of every bit of the parameters and the network's buffers; waits for the device."""
    buffers = [tensor for name, tensor in parameters.tensors().items() if name not in parameters.names]
    return _digest(b"".join(part.cpu().numpy().tobytes() for part in (parameters.fp32_params, *buffers)))


def _of_values(values: Mapping[str, Any]) -> int:
    return _digest(json.dumps(values, sort_keys=True).encode())


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)
