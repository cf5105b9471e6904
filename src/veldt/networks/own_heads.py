"""Networks made of the user's own actor, critic or model, with the outputs that the algorithms need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.networks.actor_critic import policy_distribution
from veldt.networks.own import ROWS, OwnModules, example, form_of, tried
from veldt.networks.own_core import StateLayout, has_shapes_of, initial_state
from veldt.networks.recurrent import RecurrentNetwork, first_tensor
from veldt.networks.torsos import orthogonal

BuildTorso = Callable[..., nn.Module]


class OwnActorCritic(nn.Module):
    """π and V of policy-gradient algorithms: the user's own actor, critic or both; what is missing has its own torso.

    The actor returns the parameters of the policy's distribution, float32 [N, P]: for Discrete actions the logits of
    each; for MultiDiscrete the logits of all dimensions side by side; for Box the D means (in units of the stored
    actions, -1 to 1) and then the D logarithms of the standard deviations, or the means alone: the logarithms are then
    parameters that do not depend on the observation. The critic returns values [N] or [N, 1].
    """

    def __init__(self, own: OwnModules, build_torso: BuildTorso) -> None:
        super().__init__()
        action, observation = own.spec.action, example(own.spec)
        outputs = policy_distribution(action).num_parameters
        means = len(action.low)
        actor, critic = own.get("actor"), own.get("critic")
        self.actor = actor or _Head(build_torso(), means if action.kind == "box" else outputs, 0.01)
        self.critic = critic or _Head(build_torso(), 1, 1.0)
        has_deviation = False
        if actor is not None:
            widths = (outputs, means) if action.kind == "box" else (outputs,)
            meaning = "the policy's parameters [N, P]" + (" or its means [N, D]" if means else "")
            found = own.check("actor", actor, [observation], [(ROWS, width) for width in widths], meaning)
            has_deviation = found.shape[1] == outputs
        if critic is not None:
            own.check("critic", critic, [observation], [(ROWS,), (ROWS, 1)], "values [N] or [N, 1]")
        self.log_deviation = (
            nn.Parameter(torch.zeros(means)) if action.kind == "box" and not has_deviation else None
        )

    def forward(self, observation: Tensor | dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Parameters of the policy's distribution, float32 [N, P], and values, float32 [N]."""
        parameters = self.actor(observation).float()
        if self.log_deviation is not None:
            parameters = torch.cat([parameters, self.log_deviation.expand_as(parameters)], -1)
        return parameters, self.critic(observation).float().view(-1)


class _Head(nn.Module):
    """A torso and an output layer."""

    def __init__(self, torso: nn.Module, outputs: int, gain: float) -> None:
        super().__init__()
        self.torso = torso
        self.head = orthogonal(nn.Linear(int(torso.features), outputs), gain)  # type: ignore[arg-type]

    def forward(self, observation: Tensor | dict[str, Tensor]) -> Tensor:
        return self.head(self.torso(observation).float())


class OwnPolicyModel(nn.Module):
    """A whole model of the user for policy-gradient algorithms: observations to the policy's parameters [N, P], values
    [N] and any number of further outputs, which a subclass of the algorithm may read."""

    def __init__(self, own: OwnModules) -> None:
        super().__init__()
        module = own.modules["model"]
        self.model = module
        result = tried(own.subject("model"), module, example(own.spec))
        _check_policy(own, result, (ROWS,))

    def forward(self, observation: Tensor | dict[str, Tensor]) -> tuple[Tensor, ...]:
        parameters, value, *more = self.model(observation)
        return parameters.float(), value.float().view(-1), *more


class OwnRecurrentModel(RecurrentNetwork):
    """The same with a recurrent state: a module with `initial_state(batch)`, as a core has it.

    Its `forward(observation, state, reset)` returns the outputs and the state after the last row. Observations are
    [T B, ...] in time order, the B rows of a time step adjacent; `reset` is bool [T, B]; outputs are [T B, ...].
    """

    def __init__(self, own: OwnModules) -> None:
        super().__init__()
        module = own.modules["model"]
        self.model = module
        initial = initial_state(module, ROWS, own.subject("model"))
        self._state = StateLayout(initial)
        self.recurrent_size = self._state.size
        reset = torch.ones(1, ROWS, dtype=torch.bool)
        result = tried(own.subject("model"), module, example(own.spec), initial, reset)
        *outputs, state = result if isinstance(result, tuple) else (result,)
        _check_policy(own, tuple(outputs), (ROWS,))
        if not has_shapes_of(initial, state):
            raise UsageError(
                f"{own.subject('model')} returned the state {form_of(state)}: it must have the form of "
                f"initial_state's, {form_of(initial)}, and be the last output"
            )

    def forward(
        self,
        observation: Tensor | dict[str, Tensor],
        state_BM: Tensor | None = None,
        begins_TB: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """See `RecurrentActorCritic.forward`."""
        first = first_tensor(observation)
        if state_BM is None:
            state_BM = torch.zeros(len(first), self.recurrent_size, device=first.device)
            begins_TB = torch.ones(1, len(first), dtype=torch.bool, device=first.device)
        if begins_TB is None:
            shape = (len(first) // len(state_BM), len(state_BM))
            begins_TB = torch.zeros(shape, dtype=torch.bool, device=first.device)
        parameters, value, *more, state = self.model(observation, self._state.nested(state_BM), begins_TB)
        return parameters.float(), value.float().view(-1), *more, self._state.flat(state)


def _check_policy(own: OwnModules, result: Any, rows: tuple[int, ...]) -> None:
    outputs = policy_distribution(own.spec.action).num_parameters
    shapes = [
        tuple(part.shape) if isinstance(part, Tensor) else None
        for part in (result[:2] if isinstance(result, tuple) else ())
    ]
    if len(shapes) < 2 or shapes[0] != (*rows, outputs) or shapes[1] not in (rows, (*rows, 1)):
        raise UsageError(
            f"{own.subject('model')} returned {form_of(result)} for {ROWS} observations: it must return the policy's "
            f"parameters [N, P], here {[*rows, outputs]}, and values [N]"
        )


class OwnDeterministic(nn.Module):
    """π(s) and Q(s, a) of the user, or a model with both; see `DeterministicActorCritic`.

    The actor maps observations to actions [N, D] in [-1, 1] (for example by tanh), the critic observations and actions
    to values [N] or [N, 1]. `rest` is the built-in network, for the part that is missing. A model maps observations to
    actions, and observations and actions to values; its actor's parameters have names that begin with `actor.`.
    """

    def __init__(self, own: OwnModules, rest: Callable[[], nn.Module]) -> None:
        super().__init__()
        observation, actions = example(own.spec), len(own.spec.action.low)
        self.model = own.get("model")
        part = "model" if self.model is not None else "actor"
        missing = None if self.model is not None or len(own.modules) == 2 else rest()
        self.actor = own.get("actor") or getattr(missing, "actor", None)
        self.critic = own.get("critic") or getattr(missing, "critic", None)
        self._squashed = "actor" not in own.modules
        if part in own.modules:
            module = own.modules[part]
            found = own.check(part, module, [observation], [(ROWS, actions)], "actions [N, D] in [-1, 1]")
            if float(found.abs().max()) > 1.0:
                raise UsageError(
                    f"{own.subject(part)} returned an action of {float(found.abs().max()):g}: actions must lie in "
                    "[-1, 1], for example by tanh"
                )
        part = "model" if self.model is not None else "critic"
        if part in own.modules:
            inputs = [observation, torch.zeros(ROWS, actions)]
            own.check(part, own.modules[part], inputs, [(ROWS,), (ROWS, 1)], "values [N] or [N, 1]")

    def forward(self, observation: Tensor | dict[str, Tensor], action: Tensor | None = None) -> Tensor:
        if self.model is not None:
            return (
                self.model(observation)
                if action is None
                else self.model(observation, action).float().view(-1)
            )
        assert self.actor is not None and self.critic is not None
        if action is None:
            chosen = self.actor(observation).float()
            return chosen.tanh() if self._squashed else chosen
        return self.critic(observation, action).float().view(-1)


class OwnQ(nn.Module):
    """Q(s, ·) of the user: observations to values [N, A], or to logits [N, A, atoms] of distributions of returns."""

    noise_width = 0

    def __init__(self, own: OwnModules, part: str, action: ActionSpec, atoms: int) -> None:
        super().__init__()
        self.critic = own.modules[part]
        shape = (ROWS, action.sizes[0]) if atoms == 1 else (ROWS, action.sizes[0], atoms)
        meaning = "values [N, A] of all actions" if atoms == 1 else "logits [N, A, atoms] of all actions"
        own.check(part, self.critic, [example(own.spec)], [shape], meaning)

    def forward(self, observation: Tensor | dict[str, Tensor], noise: Tensor | None = None) -> Tensor:
        return self.critic(observation).float()
