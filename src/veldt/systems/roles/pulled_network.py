"""A network with the newest weights that a learner has published, for roles that act with a copy of the policy."""

from __future__ import annotations

import torch

from veldt.agent import make_network
from veldt.config.train_config import TrainConfig
from veldt.envs.spec import EnvSpec
from veldt.exchange.weights import Weights
from veldt.networks.own import OwnParts
from veldt.networks.precision import apply_precision


class PulledNetwork:
    """On the CPU, in the run's precision; `version` is that of its weights, -1 before any are published."""

    def __init__(self, config: TrainConfig, spec: EnvSpec, own: OwnParts, weights: Weights) -> None:
        self.network = make_network(config, spec, own)
        self._parameters = apply_precision(self.network, config.run.precision, torch.device("cpu"))
        self._arrays, self._weights, self.version = self._parameters.arrays(), weights, -1
        weights.check(self._arrays)

    def pull_if_newer(self) -> bool:
        """Loads newer weights, if there are any; False while none have ever been published."""
        version = self._weights.pull_if_newer(self.version, self._arrays)
        if version != self.version:
            self.version = version
            self._parameters.refresh()
        return version >= 0
