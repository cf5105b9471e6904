"""RMSProp's settings, for algorithms that use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from veldt.errors import UsageError
from veldt.functional.updates import RMSProp
from veldt.setting_metadata import Unit


@dataclass(frozen=True, kw_only=True)
class RMSPropConfig:
    """Settings of RMSProp."""

    rmsprop_decay: Annotated[float, Unit("per update")] = 0.99
    """Decay of RMSProp's mean square."""
    rmsprop_epsilon: Annotated[float, Unit("gradient")] = 1e-5
    """ε of RMSProp (in units of gradient² if it is inside the square root)."""
    rmsprop_epsilon_inside: bool = False
    """ε inside the square root (A3C, TensorFlow) or outside (PyTorch)."""
    rmsprop_initial: Annotated[float, Unit("gradient²")] = 0.0
    """Initial value of RMSProp's mean square (1 in TensorFlow, which makes the first updates small)."""

    def check_rmsprop(self) -> None:
        """Raises UsageError if a value is out of range."""
        if not 0 <= self.rmsprop_decay < 1:
            raise UsageError(f"--rmsprop-decay is {self.rmsprop_decay}: it must be in [0, 1)")
        if self.rmsprop_epsilon <= 0:
            raise UsageError(f"--rmsprop-epsilon is {self.rmsprop_epsilon}: it must be more than 0")
        if self.rmsprop_initial < 0:
            raise UsageError(f"--rmsprop-initial is {self.rmsprop_initial}: it must be 0 or more")

    def rmsprop(self) -> RMSProp:
        """Returns the update rule for these settings."""
        return RMSProp(
            self.rmsprop_decay, self.rmsprop_epsilon, self.rmsprop_epsilon_inside, self.rmsprop_initial
        )
