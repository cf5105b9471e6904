"""Policy and value with an LSTM, or the user's own recurrent core, between torso and heads.

The recurrent state of an env is float32 [M]: h and c of the LSTM, concatenated, M = 2 units. The actor keeps it per env
(`RecurrentState`) and clears it at the first observation of an episode. The learner recomputes all rows of a rollout
from the state before the first row (`RecurrentForward`), so gradients reach back to that row and not further (Mnih et
al. 2016, section 5.1.4; Espeholt et al. 2018, section 3.1).

The LSTM's input is the torso's features only. IMPALA's LSTM also gets the last reward and the last action (figure 3);
an env that needs this can include them in its observations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from veldt.envs.spec import ActionSpec
from veldt.networks.actor_critic import ActorCritic
from veldt.networks.precision import Forward
from veldt.networks.torsos import orthogonal
from veldt.runtime.devices import to_device


class LSTM(nn.Module):
    """An LSTM with forget gates (Gers et al. 2000), which are open initially (bias 1)."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.units, self.size = units, 2 * units
        self.input = orthogonal(nn.Linear(inputs, 4 * units), 1.0)
        self.hidden = nn.Linear(units, 4 * units, bias=False)
        nn.init.orthogonal_(self.hidden.weight)
        with torch.no_grad():
            self.input.bias[units : 2 * units] = 1.0

    def forward(self, features_TBF: Tensor, state_BM: Tensor, keep_TB1: Tensor) -> tuple[Tensor, Tensor]:
        """Returns outputs float32 [T, B, units], and the recurrent state after the last row.

        Args:
            state_BM: the recurrent state before the first row.
            keep_TB1: 1, or 0 for rows before which the state is cleared.
        """
        # For all rows at once: only the part that depends on h is sequential.
        gates_TBG = self.input(features_TBF)
        h_BU, c_BU = state_BM.chunk(2, -1)
        outputs = []
        for input_BG, keep_B1 in zip(gates_TBG, keep_TB1, strict=True):
            gates_BG = input_BG + self.hidden(h_BU * keep_B1)
            write, forget, read = gates_BG[:, : 3 * self.units].sigmoid().chunk(3, -1)
            c_BU = forget * (c_BU * keep_B1) + write * gates_BG[:, 3 * self.units :].tanh()
            h_BU = read * c_BU.tanh()
            outputs.append(h_BU)
        return torch.stack(outputs), torch.cat([h_BU, c_BU], -1)


class _Outputs(nn.Module):
    """Stands in for the torso: its features are the LSTM's outputs."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.features = units

    def forward(self, core_NU: Tensor) -> Tensor:
        return core_NU


class RecurrentNetwork(nn.Module):
    """A network with `recurrent_size` float32 values of state for each env; see `RecurrentActorCritic.forward`."""

    recurrent_size: int


class RecurrentActorCritic(RecurrentNetwork):
    """π and V on a recurrent core, on one torso. Core and heads compute in fp32 in any precision setting.

    Args:
        build_torso: builds the torso.
        make_core: makes the core for a number of features: a module called as `LSTM.forward`, with its attributes
            `units` (outputs) and `size` (values of state for each env).
    """

    def __init__(
        self, build_torso: Callable[[], nn.Module], action: ActionSpec, make_core: Callable[[int], nn.Module]
    ) -> None:
        super().__init__()
        self.torso = build_torso()
        self.core = make_core(int(self.torso.features))  # type: ignore[arg-type]
        units = int(self.core.units)  # type: ignore[arg-type]
        self.heads = ActorCritic(lambda: _Outputs(units), action, shared=True)
        self.recurrent_size = int(self.core.size)  # type: ignore[arg-type]

    def low_precision_parts(self) -> list[nn.Module]:
        """The modules that may compute in bf16."""
        return [self.torso]

    def forward(
        self,
        observation: Tensor | dict[str, Tensor],
        state_BM: Tensor | None = None,
        begins_TB: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the policy's parameters [N, P], values [N], and the recurrent states after the last row [B, M].

        All are float32.

        Args:
            observation: N = T B rows, [N, ...], in time order, the B rows of a time step adjacent.
            state_BM: the states before the first row; None: T is 1 and all states are cleared.
            begins_TB: bool, rows that begin an episode; None: no row does.
        """
        features_NF = self.torso(observation).float()
        is_start = state_BM is None
        if state_BM is None:
            state_BM = features_NF.new_zeros(features_NF.shape[0], self.recurrent_size)
        # In a graph `len` would fix the size of the batch, and T would have to be found by a division.
        steps_and_envs = (-1, state_BM.shape[0]) if begins_TB is None else begins_TB.shape
        features_TBF = features_NF.unflatten(0, steps_and_envs)
        if begins_TB is None:
            keep_TB1 = features_NF.new_full((*features_TBF.shape[:2], 1), 0.0 if is_start else 1.0)
        else:
            keep_TB1 = (~begins_TB).float().unsqueeze(-1)
        core_TBU, state_BM = self.core(features_TBF, state_BM, keep_TB1)
        return *self.heads(core_TBU.flatten(0, 1)), state_BM


def recurrent_size_of(network: nn.Module) -> int:
    """Size of the recurrent state of each env; 0 if the network has none."""
    return network.recurrent_size if isinstance(network, RecurrentNetwork) else 0


class RecurrentForward:
    """A recurrent network's forward pass over consecutive rows, with the call signature of other networks.

    Each call continues where the last one ended: for example the T B rows of a rollout, then the B rows after them.

    Args:
        forward: see `RecurrentActorCritic.forward`.
        state_BM: the recurrent states before the first row.
        begins_SB: bool, rows that begin an episode, for all calls together.
    """

    def __init__(self, forward: Forward, state_BM: Tensor, begins_SB: Tensor) -> None:
        self._forward, self.state_BM, self._begins_SB = forward, state_BM, begins_SB

    def __call__(self, observation: Tensor | dict[str, Tensor]) -> tuple[Tensor, ...]:
        steps = len(first_tensor(observation)) // len(self.state_BM)
        begins_TB, self._begins_SB = self._begins_SB[:steps], self._begins_SB[steps:]
        *outputs, self.state_BM = self._forward(observation, self.state_BM, begins_TB)
        return tuple(outputs)


def first_tensor(observation: Tensor | dict[str, Tensor]) -> Tensor:
    """Returns the observation, or the first field of a dictionary: all fields have as many rows, on one device."""
    return next(iter(observation.values())) if isinstance(observation, dict) else observation


class RecurrentState:
    """The actor's recurrent state of each of `width` envs: `state_BM`, float32 [B, size], initially 0.

    Args:
        forward: the network's forward pass.
        size: see `recurrent_size_of`; with 0 there is no state, and `at` returns `forward` unchanged.
    """

    def __init__(self, forward: Forward, size: int, width: int, device: torch.device) -> None:
        self._forward, self._size = forward, size
        self.state_BM = torch.zeros(width, size, device=device)

    def at(self, part: slice, episode_step_N: np.ndarray) -> Forward:
        """Returns the forward pass for one observation of each of the envs `part`, at episode steps `episode_step_N`.

        Calling it updates the states of these envs only.
        """
        if not self._size:
            return self._forward

        def forward(observation: Tensor | dict[str, Tensor]) -> tuple[Tensor, ...]:
            begins_1N = to_device(torch.from_numpy(episode_step_N == 0), self.state_BM.device).unsqueeze(0)
            recurrent_forward = RecurrentForward(self._forward, self.state_BM[part], begins_1N)
            outputs = recurrent_forward(observation)
            self.state_BM[part] = recurrent_forward.state_BM
            return outputs

        return forward
