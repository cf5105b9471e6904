"""GA3C: agents without a network, queues, and one model on one device (Babaeizadeh et al. 2017, section 2).

     +------- prediction queue -------> predictors -------+
     |                                                    |
agents (envs) <------------------ answers ----------------+-- model
     |                                                    |
     +------- training queue ---------> trainers ---------+
"""

from __future__ import annotations

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
from veldt.networks.recurrent import recurrent_size_of
from veldt.runs.checkpoint_files import Checkpoint
from veldt.runtime.shared import Layout
from veldt.sampling.observations import blank_observation
from veldt.systems.ga3c.agents import AgentsPlan, run_agent_process
from veldt.systems.ga3c.model import ModelPlan, run_model
from veldt.systems.planning.run_plan import RunPlan
from veldt.systems.roles.graph_parts import (
    evaluators,
    incarnations_of,
    sampler_learner_deadline_s,
    weights_edge,
)

_AGENT = "agent"  # the name of the role: each of its processes has several agents
_NICENESS = 10  # of agent processes: the model has priority, since agents wait for it anyway
_PUBLISH_EVERY = 16  # updates: only the evaluator reads published weights


def ga3c(run_plan: RunPlan, run: Path | None = None, checkpoint: Checkpoint | None = None) -> Graph:
    """Returns the graph of the system for a run in directory `run`, from the start or resumed from `checkpoint`."""
    config, spec, steps = run_plan.config, run_plan.spec, run_plan.horizon
    settings, agents = config.roles, config.envs.num_envs
    assert isinstance(settings, Ga3cConfig)
    width, incarnations = agents // settings.agent_processes, incarnations_of(checkpoint)
    network, _ = run_plan.network()
    noise, recurrent_size = run_plan.algorithm().action_noise(network), recurrent_size_of(network)
    actor_outputs = _actor_outputs(run_plan)
    slot = row_layouts(spec, steps, 1)
    slot |= {name: Layout((steps, 1, *layout.shape), layout.dtype) for name, layout in actor_outputs.items()}
    if recurrent_size:
        slot |= {
            name: Layout((1, recurrent_size), "float32")
            for name in ("initial_recurrent_state", "final_recurrent_state")
        }
    least = settings.least_rollouts(steps)
    queue = settings.training_queue or max(agents, least)
    if queue < least:
        raise UsageError(
            f"--training-rows is {settings.training_rows:,}, which are {least:,} rollouts of {steps} steps, and "
            f"--training-queue is {queue:,}: trainers would wait for ever; take room for at least as many"
        )
    depth = max(-(-queue // settings.agent_processes), least)
    evaluator_roles = evaluators(run_plan, checkpoint)
    edges = {
        "inference": Edge(
            _AGENT,
            "model",
            f"requests of {agents} agents one by one, answered by up to {settings.prediction_batch} at once",
            InferenceSpec(
                _requests(run_plan, noise, recurrent_size),
                _answers(run_plan, actor_outputs, recurrent_size),
                settings.agent_processes,
                width,
            ),
        ),
        "rollouts": Edge(
            _AGENT,
            "model",
            f"rollouts of {steps} steps with the policy's outputs, {depth} for each agent process, full ones block",
            SlotsSpec(slot, settings.agent_processes, depth),
        ),
        "rate_limiter": Edge(
            "model",
            _AGENT,
            "counts of steps and updates",
            RateLimiterSpec.free(settings.agent_processes, 1, 0),
        ),
    }
    if evaluator_roles:
        edges["weights"] = weights_edge(run_plan, "evaluator", "model")
    model = Role(
        "model",
        f"{counted(settings.predictors, 'predictor', 'predictors')} and "
        f"{counted(settings.trainers, 'trainer', 'trainers')} on {config.run.device}",
        run_model,
        [
            ModelPlan(
                config=config,
                spec=spec,
                network=run_plan.own_parts_for_roles,
                publish_every=_PUBLISH_EVERY,
                run=run,
                least=least,
            )
        ],
        [{"slots" if name == "rollouts" else name: name for name in edges}],
        settings.max_restarts,
        sampler_learner_deadline_s(config),
        num_checkpointed=1,
        resumes_from="the checkpoint of step {step:,}",
        gpus=int(run_plan.device.type != "cpu"),
    )
    agent_role = Role(
        _AGENT,
        f"{counted(width, 'agent', 'agents')} in one process, each with an env of its own",
        run_agent_process,
        [
            AgentsPlan(
                config,
                run_plan.source,
                spec,
                number=process,
                first=process * width,
                width=width,
                steps=steps,
                actor_outputs=actor_outputs,
                noise_width=noise,
                recurrent=recurrent_size,
                incarnations=incarnations.get(role_name(_AGENT, process, settings.agent_processes), 0),
            )
            for process in range(settings.agent_processes)
        ],
        [{"inference": "inference", "slots": "rollouts", "rate_limiter": "rate_limiter"}]
        * settings.agent_processes,
        settings.max_restarts,
        max(30.0, config.envs.env_timeout),
        niceness=_NICENESS,
    )
    return Graph((model, agent_role, *evaluator_roles), edges)


def _requests(run_plan: RunPlan, noise: int, recurrent_size: int) -> dict[str, Layout]:
    """Returns the layout of one agent's request; frames are stacked by the agent: the model keeps no earlier ones."""
    layouts = {}
    for name, field in run_plan.spec.observation.items():
        shape = (*field.shape, field.stack) if field.stack > 1 else field.shape
        layouts[f"observation/{name}"] = Layout(shape, field.dtype)
    layouts["noise"] = Layout((noise,), "float32")
    return layouts | (
        {"recurrent_state": Layout((recurrent_size,), "float32"), "begins": Layout((), "bool")}
        if recurrent_size
        else {}
    )


def _answers(run_plan: RunPlan, actor_outputs: dict[str, Layout], recurrent_size: int) -> dict[str, Layout]:
    action = run_plan.spec.action
    layouts = {"action": Layout(action.shape, action.dtype), "version": Layout((), "int64"), **actor_outputs}
    return layouts | ({"recurrent_state": Layout((recurrent_size,), "float32")} if recurrent_size else {})


@torch.no_grad()
def _actor_outputs(run_plan: RunPlan) -> dict[str, Layout]:
    """Returns the layouts of what the algorithm stores for each action besides the action, found by acting once.

    The value is left out: the learner, some updates later, computes it again.
    """
    algorithm, (network, _) = run_plan.algorithm(), run_plan.network()
    assert isinstance(algorithm, OnPolicy)
    noise = algorithm.prepare_noise(torch.full((1, 1, algorithm.action_noise(network)), 0.5), 0)[0]
    observation = blank_observation(run_plan.spec, 1, run_plan.device)
    forward = network if not recurrent_size_of(network) else lambda seen: network(seen)[:2]
    _, actor_outputs = algorithm.act(forward, observation, noise.to(run_plan.device))
    return {
        name: Layout(tuple(tensor.shape[1:]), str(tensor.dtype).removeprefix("torch."))
        for name, tensor in actor_outputs.items()
        if name != "value"
    }
