"""GA3C: agents without a network, queues, and one model on one device (Babaeizadeh et al. 2017, section 2).

     +------- prediction queue -------> predictors -------+
     |                                                    |
agents (envs) <------------------ answers ----------------+-- model
     |                                                    |
     +------- training queue ---------> trainers ---------+
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from veldt.algorithms.base import OnPolicy
from veldt.config.ga3c_settings import Ga3cConfig
from veldt.envs.trajectory import row_layouts
from veldt.errors import UsageError
from veldt.exchange.graph import Edge, Graph, Role, SlotsSpec, role_name
from veldt.exchange.inference import InferenceSpec
from veldt.exchange.rate_limiter import RateLimiterSpec
from veldt.formatting import counted
from veldt.learning.normalisation import reward_gamma_of
from veldt.networks.recurrent import recurrent_size_of
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runtime.shared import Layout
from veldt.sampling.checked_actions import checked_act, num_noise
from veldt.sampling.observations import blank_observation
from veldt.sampling.unrolls import RUNNING_RETURN, returns_layout
from veldt.systems.ga3c.agents import AgentsPlan, run_agent_process
from veldt.systems.ga3c.model import ModelPlan, run_model
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.graph_parts import (
    ACTING_NICENESS,
    acting_deadline_s,
    evaluators,
    incarnations_of,
    sampler_learner_deadline_s,
    weights_edge,
)

_AGENT = "agent"  # the name of the role: each of its processes has several agents
_PUBLISH_EVERY = 16  # updates: only the evaluator reads published weights


def ga3c(run_plan: RunPlan, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """Returns the graph of the system for a run in directory `run`, from the start or resumed from `checkpoint`."""
    parts = _AgentParts.of(run_plan)
    evaluator_roles = evaluators(run_plan, checkpoint)
    edges = _edges(run_plan, parts)
    if evaluator_roles:
        edges["weights"] = weights_edge(run_plan, "evaluator", "model")
    model = _model_role(run_plan, run, list(edges))
    return Graph((model, _agent_role(run_plan, parts, checkpoint), *evaluator_roles), edges)


@dataclass(frozen=True)
class _AgentParts:
    """What requests, answers and rollouts of an agent are made of.

    Args:
        actor_outputs: layouts of what the algorithm stores for each action, besides the action.
        noise: random numbers that an action takes.
        recurrent_size: numbers of the recurrent state; 0: the network has none.
    """

    actor_outputs: dict[str, Layout]
    noise: int
    recurrent_size: int

    @classmethod
    def of(cls, run_plan: RunPlan) -> _AgentParts:
        network, _ = run_plan.network()
        noise = num_noise(run_plan.algorithm(), network)
        return cls(_actor_outputs(run_plan), noise, recurrent_size_of(network))


def _edges(run_plan: RunPlan, parts: _AgentParts) -> dict[str, Edge]:
    """Returns all edges but the weights. UsageError for a training queue that can never hold enough."""
    settings, agents, steps = _settings(run_plan), run_plan.config.envs.num_envs, run_plan.horizon
    least = settings.least_rollouts(steps)
    queue = settings.training_queue or max(agents, least)
    if queue < least:
        raise UsageError(
            f"--training-rows is {settings.training_rows:,}, which are {least:,} rollouts of {steps} steps, and "
            f"--training-queue is {queue:,}: trainers would wait for ever; give --training-queue {least:,} or more"
        )
    depth = max(-(-queue // settings.agent_processes), least)
    return {
        "inference": Edge(
            _AGENT,
            "model",
            f"requests of {agents} agents one by one, answered by up to {settings.prediction_batch} at once",
            InferenceSpec(
                _requests(run_plan, parts),
                _answers(run_plan, parts),
                settings.agent_processes,
                agents // settings.agent_processes,
            ),
        ),
        "rollouts": Edge(
            _AGENT,
            "model",
            f"rollouts of {steps} steps with the policy's outputs, {depth} for each agent process, full ones block",
            SlotsSpec(_rollout(run_plan, parts), settings.agent_processes, depth),
        ),
        "rate_limiter": Edge(
            "model",
            _AGENT,
            "counts of steps and updates",
            RateLimiterSpec.free(settings.agent_processes, 1, 0),
        ),
    }


def _model_role(run_plan: RunPlan, run: Path | None, edges: list[str]) -> Role:
    config, settings = run_plan.config, _settings(run_plan)
    return Role(
        "model",
        f"{counted(settings.predictors, 'predictor', 'predictors')} and "
        f"{counted(settings.trainers, 'trainer', 'trainers')} on {config.run.device}",
        run_model,
        [
            ModelPlan(
                config=config,
                spec=run_plan.spec,
                network=run_plan.own_parts_for_roles,
                publish_every=_PUBLISH_EVERY,
                run=run,
                least=settings.least_rollouts(run_plan.horizon),
            )
        ],
        [{"slots" if name == "rollouts" else name: name for name in edges}],
        settings.max_restarts,
        sampler_learner_deadline_s(config),
        num_checkpointed=1,
        resumes_from="the checkpoint of step {step:,}",
        gpus=run_plan.gpus_of_learner,
    )


def _agent_role(run_plan: RunPlan, parts: _AgentParts, checkpoint: Checkpoint | None) -> Role:
    config, settings, incarnations = run_plan.config, _settings(run_plan), incarnations_of(checkpoint)
    processes = settings.agent_processes
    width = config.envs.num_envs // processes
    return Role(
        _AGENT,
        f"{counted(width, 'agent', 'agents')} in one process, each with an env of its own",
        run_agent_process,
        [
            AgentsPlan(
                config,
                run_plan.source,
                run_plan.spec,
                number=process,
                first=process * width,
                width=width,
                steps=run_plan.horizon,
                actor_outputs=parts.actor_outputs,
                noise_width=parts.noise,
                recurrent_size=parts.recurrent_size,
                incarnations=incarnations.get(role_name(_AGENT, process, processes), 0),
            )
            for process in range(processes)
        ],
        [{"inference": "inference", "slots": "rollouts", "rate_limiter": "rate_limiter"}] * processes,
        settings.max_restarts,
        acting_deadline_s(config),
        niceness=ACTING_NICENESS,
    )


def _settings(run_plan: RunPlan) -> Ga3cConfig:
    assert isinstance(run_plan.config.roles, Ga3cConfig)
    return run_plan.config.roles


def _rollout(run_plan: RunPlan, parts: _AgentParts) -> dict[str, Layout]:
    """Returns the layouts of a rollout of one agent."""
    steps = run_plan.horizon
    layouts = row_layouts(run_plan.spec, steps, 1)
    for name, layout in parts.actor_outputs.items():
        layouts[name] = Layout((steps, 1, *layout.shape), layout.dtype)
    if reward_gamma_of(run_plan.algorithm()) is not None:
        layouts[RUNNING_RETURN] = returns_layout(steps, 1)
    if parts.recurrent_size:
        for name in ("initial_recurrent_state", "final_recurrent_state"):
            layouts[name] = Layout((1, parts.recurrent_size), "float32")
    return layouts


def _requests(run_plan: RunPlan, parts: _AgentParts) -> dict[str, Layout]:
    """Returns the layouts of one agent's request; frames are stacked by the agent: the model keeps no earlier ones."""
    layouts = {}
    for name, field in run_plan.spec.observation.items():
        shape = (*field.shape, field.stack) if field.stack > 1 else field.shape
        layouts[f"observation/{name}"] = Layout(shape, field.dtype)
    layouts["noise"] = Layout((parts.noise,), "float32")
    if parts.recurrent_size:
        layouts["recurrent_state"] = Layout((parts.recurrent_size,), "float32")
        layouts["begins"] = Layout((), "bool")
    return layouts


def _answers(run_plan: RunPlan, parts: _AgentParts) -> dict[str, Layout]:
    """Returns the layouts of the answer to a request."""
    action = run_plan.spec.action
    layouts = {"action": Layout(action.shape, action.dtype), "version": Layout((), "int64")}
    layouts |= parts.actor_outputs
    if parts.recurrent_size:
        layouts["recurrent_state"] = Layout((parts.recurrent_size,), "float32")
    return layouts


@torch.no_grad()
def _actor_outputs(run_plan: RunPlan) -> dict[str, Layout]:
    """Returns the layouts of what the algorithm stores for each action besides the action, found by acting once.

    The value is left out: the learner, some updates later, computes it again.
    """
    algorithm, (network, _) = run_plan.algorithm(), run_plan.network()
    assert isinstance(algorithm, OnPolicy)
    noise = algorithm.prepare_noise(torch.full((1, 1, num_noise(algorithm, network)), 0.5), 0)[0]
    observation = blank_observation(run_plan.spec, 1, run_plan.device)
    forward = network if not recurrent_size_of(network) else lambda seen: network(seen)[:2]
    returned = algorithm.act(forward, observation, noise.to(run_plan.device))
    _, actor_outputs = checked_act(returned, 1, run_plan.spec.action, algorithm)
    return {
        name: Layout(tuple(tensor.shape[1:]), str(tensor.dtype).removeprefix("torch."))
        for name, tensor in actor_outputs.items()
        if name != "value"
    }
