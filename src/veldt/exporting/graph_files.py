"""The policy's graph as files that run without veldt: policy.pt2 and policy-aot.pt2 for torch, policy.onnx for every
ONNX runtime."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veldt.agent import Agent
from veldt.errors import UsageError, VeldtError
from veldt.exporting.compiled_graph import cause_in_brief, load_compiled, write_compiled
from veldt.exporting.policy_graph import ACTION, PolicyGraph
from veldt.runs.files import write_new_file
from veldt.runs.own_names import AOT, TORCH

_PACKAGES = ("onnx", "onnxruntime", "onnxscript")
_BATCH = "N"
_TOLERANCE = 1e-4  # relative to numbers above 1
_CHECKED = 16  # observations


def refuse_missing_packages() -> None:
    """Raises UsageError if an ONNX file cannot be written here."""
    if missing := [name for name in _PACKAGES if importlib.util.find_spec(name) is None]:
        raise UsageError(
            f"--onnx needs packages that are not installed ({', '.join(missing)}): pip install 'veldt[onnx]'"
        )


def captured(graph: PolicyGraph) -> torch.export.ExportedProgram:
    """Returns the graph with a first axis of any size.

    Raises:
        VeldtError: torch cannot capture what a network does.
    """
    batch = torch.export.Dim(_BATCH, min=1)
    try:
        with torch.no_grad(), _quiet():
            program = torch.export.export(
                graph,
                tuple(array.example() for array in graph.inputs),
                dynamic_shapes=(tuple({0: batch} for _ in graph.inputs),),
                strict=False,
            )
    except Exception as error:
        raise VeldtError(
            f"torch.export cannot capture the policy's network as a graph ({cause_in_brief(error)}): leave out --onnx, "
            "--torch-export and --aot-inductor, or write the network without Python that depends on tensors: "
            "x.shape[0] for len(x), torch.where for if"
        ) from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # it would show paths of this machine to whoever gets the file
    return program


def write_graph(program: torch.export.ExportedProgram, graph: PolicyGraph, path: Path) -> None:
    """Writes the graph as the file's name says: policy.pt2, policy-aot.pt2 or policy.onnx.

    Raises:
        VeldtError: there is no such operation in ONNX, or it cannot be compiled. OSError as the operating system raises
            it.
    """
    if path.name == TORCH:
        _write_torch(program, path)
    elif path.name == AOT:
        with _quiet():
            write_compiled(program, path)
    else:
        _write_onnx(program, graph, path)


def _write_torch(program: torch.export.ExportedProgram, path: Path) -> None:
    content = io.BytesIO()
    with _quiet():
        torch.export.save(program, content)
    write_new_file(path, content.getvalue())


def _write_onnx(program: torch.export.ExportedProgram, graph: PolicyGraph, path: Path) -> None:
    try:
        with _quiet():
            exported = torch.onnx.export(
                program,
                (),
                dynamo=True,
                input_names=[array.name for array in graph.inputs],
                output_names=[array.name for array in graph.outputs],
                verbose=False,
            )
            assert exported is not None
            model = exported.model_proto
            _name_batch(model)
            content = model.SerializeToString()
    except Exception as error:
        raise VeldtError(
            f"the policy's network cannot be written as ONNX ({cause_in_brief(error)}): leave out --onnx, or use "
            "--torch-export"
        ) from error
    write_new_file(path, content)


def _name_batch(model: Any) -> None:
    """Names the batch's axis N, which torch numbers by a counter of its own."""
    given = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param == given:
                dimension.dim_param = _BATCH


def largest_difference(agent: Agent, graph: PolicyGraph, path: Path) -> float:
    """Runs the file on observations of the agent's env, and returns how far it is from the agent at most.

    Raises:
        VeldtError: that is more than rounding.
    """
    observations = _observed(agent, _CHECKED)
    results = _runner(path)(graph.split(observations))
    found = {array.name: result for array, result in zip(graph.outputs, results, strict=True)}
    largest = 0.0
    for name, expected in _expected(agent, graph, observations):
        scale = np.maximum(1.0, np.abs(expected))
        largest = max(largest, float((np.abs(found[name] - expected) / scale).max()))
    if not largest <= _TOLERANCE:  # NaN is none of both
        raise VeldtError(
            f"{path.name} was not written: what it computes differs from the policy by {largest:g}, more than the "
            f"tolerance of {_TOLERANCE:g}; leave it out, and report this with the versions of torch and onnx"
        )
    return largest


def _expected(agent: Agent, graph: PolicyGraph, observations: list[Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Yields what the agent itself says. Discrete actions are left out: rounding decides between equal ones."""
    names = {array.name for array in graph.outputs}
    if agent.spec.action.kind == "box" and np.dtype(agent.spec.action.env_dtype).kind == "f":
        agent.reset()
        yield ACTION, np.asarray(agent.act(observations, greedy=True))
    for name in ("value", "action_values"):
        if name in names:
            yield name, getattr(agent, name)(observations)
    if "mean" in names or any(name.startswith("probabilities") for name in names):
        yield from agent.distribution(observations).items()


def _observed(agent: Agent, count: int) -> list[Any]:
    """Returns observations of random actions, each as it was when the env returned it."""
    env = agent.make_env()
    try:
        env.action_space.seed(0)
        observation, _ = env.reset(seed=0)
        observations = [_copied(observation)]
        while len(observations) < count:
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                observation, _ = env.reset(seed=len(observations))
            observations.append(_copied(observation))
        return observations
    finally:
        env.close()


def _copied(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {name: _copied(part) for name, part in observation.items()}
    if isinstance(observation, tuple):
        return tuple(map(_copied, observation))
    return np.array(observation)


def _runner(path: Path) -> Callable[[Sequence[Tensor]], list[np.ndarray]]:
    """Returns a function that runs the file as a user would."""
    if path.name == AOT:
        with _quiet():
            compiled = load_compiled(path)
        return lambda inputs: [tensor.detach().numpy() for tensor in compiled(inputs)]
    if path.name == TORCH:
        with _quiet():
            module = torch.export.load(path).module()
        return lambda inputs: [tensor.detach().numpy() for tensor in module(*inputs)]
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [declared.name for declared in session.get_inputs()]
    return lambda inputs: session.run(
        None, {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps torch's notes to its own developers off the screen."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
