"""README.md of an export: a model card with the metadata that the Hugging Face Hub reads."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from veldt.agent import Agent
from veldt.config.run_code import own_names
from veldt.envs.source import imported_module
from veldt.evaluation.evaluator import Evaluation
from veldt.exporting.policy_graph import RESET
from veldt.exporting.preprocessing_text import action_line, observation_lines
from veldt.exporting.raw_observations import GraphArray
from veldt.exporting.reproduction import training_command
from veldt.registry import plugin_distributions
from veldt.runs.own_names import AOT, CONFIG, GRAPHS, ONNX, TORCH, VIDEO, WEIGHTS
from veldt.user_code.import_path import can_be_loaded

_CONTENT = {
    WEIGHTS: "the policy's weights",
    CONFIG: "all settings, how observations and actions are encoded, the evaluation, versions",
    VIDEO: "a video of an episode",
    ONNX: "the policy as a graph, for ONNX runtimes",
    TORCH: "the policy as a graph, for `torch.export.load`",
    AOT: "the policy's graph, compiled, for `torch._inductor.aoti_load_package` on processors of the same kind",
}


def evaluation_facts(evaluation: Evaluation, protocol: str, seed: int, greedy: bool) -> dict[str, Any]:
    """Returns an evaluation as config.json and the card have it."""
    scores = np.array(evaluation.scores)
    return {
        "protocol": protocol,
        "episodes": len(scores),
        "seed": seed,
        "greedy": greedy,
        "mean": float(scores.mean()),
        "deviation": float(scores.std()),
        "lowest": float(scores.min()),
        "median": float(np.median(scores)),
        "highest": float(scores.max()),
        "mean_length": float(np.mean(evaluation.lengths)),
        "scores": evaluation.scores,
    }


def model_card(
    agent: Agent,
    run: Mapping[str, Any],
    facts: Mapping[str, Any],
    files: Sequence[str],
    no_video: str | None,
    graph: Mapping[str, Sequence[GraphArray]],
) -> str:
    """Returns the text of README.md.

    Args:
        run: the run's config.json.
        facts: see `evaluation_facts`.
        files: the names of the other files.
        no_video: why there is no video; None if there is one.
        graph: the `inputs` and `outputs` of the graph; empty where there is none.
    """
    config = agent.config
    parts = [
        _metadata(agent, facts),
        f"# {config.recipe} on {config.env}",
        f"A policy trained by the algorithm `{config.algorithm}` (recipe `{config.recipe}`, system `{config.system}`) "
        f"of veldt, after {agent.step:,} steps.",
        "\n".join(
            ["| file | content |", "| --- | --- |", *(f"| `{name}` | {_CONTENT[name]} |" for name in files)]
        ),
        *([] if no_video is None else [f"There is no `{VIDEO}`: {no_video}."]),
        *_evaluation(facts),
        *_loading(agent),
        "## Observations and actions",
        "\n".join(f"* {line}" for line in observation_lines(agent)),
        f"Actions: {action_line(agent.spec.action)}",
        *(_graph(graph, files) if graph else []),
        *_reproduction(agent, run),
    ]
    return "\n\n".join(parts) + "\n"


def _metadata(agent: Agent, facts: Mapping[str, Any]) -> str:
    """The YAML at the beginning. Every string of the run is written as JSON, which is YAML, too."""
    config = agent.config
    tags = (config.env, config.algorithm, "deep-reinforcement-learning", "reinforcement-learning", "veldt")
    lines = [
        "---",
        "library_name: veldt",
        "pipeline_tag: reinforcement-learning",
        "tags:",
        *(f"- {_quoted(tag)}" for tag in dict.fromkeys(tags)),
        "model-index:",
        f"- name: {_quoted(f'{config.recipe} on {config.env}')}",
        "  results:",
        "  - task:",
        "      type: reinforcement-learning",
        "      name: reinforcement-learning",
        "    dataset:",
        f"      name: {_quoted(config.env)}",
        f"      type: {_quoted(config.env)}",
        "    metrics:",
        "    - type: mean_reward",
        f"      name: {_quoted(f'mean return, {_protocol(facts)}')}",
        f"      value: {_quoted(_mean(facts))}",
        "      verified: false",
        "---",
    ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def _mean(facts: Mapping[str, Any]) -> str:
    return f"{facts['mean']:.2f} +/- {facts['deviation']:.2f}"


def _protocol(facts: Mapping[str, Any]) -> str:
    actions = "greedy actions" if facts["greedy"] else "exploring as the algorithm does in evaluation"
    return f"protocol {facts['protocol']}, {facts['episodes']} episodes, {actions}"


def _evaluation(facts: Mapping[str, Any]) -> Iterator[str]:
    yield "## Evaluation"
    yield (
        f"Raw return **{_mean(facts)}** ({_protocol(facts)}, seed {facts['seed']}): lowest {facts['lowest']:.2f}, "
        f"median {facts['median']:.2f}, highest {facts['highest']:.2f}, mean length {facts['mean_length']:.1f} steps. "
        f"The return of each episode is in `{CONFIG}`."
    )
    words = ["veldt evaluate DIRECTORY", f"--protocol {facts['protocol']}"]
    words += [f"--episodes {facts['episodes']}"] if facts["protocol"] == "episodes" else []
    words += [f"--seed {facts['seed']}", *(["--greedy"] if facts["greedy"] else [])]
    yield f"```sh\n{' '.join(words)}\n```"


def _loading(agent: Agent) -> Iterator[str]:
    yield "## Load the policy"
    yield (
        "With veldt; DIRECTORY is that of these files:\n\n```python\nimport veldt\n\n"
        'agent = veldt.load("DIRECTORY")\nenv = agent.make_env()\nobservation, _ = env.reset(seed=0)\n'
        "action = agent.act(observation, greedy=True)\n```"
    )
    config = agent.config
    code = dict(own_names(config))
    if imported_module(config.env, config.env_kwargs) is not None:
        code["env"] = config.env
    for part, name in code.items():
        argument = f'{part}="{name}"' if can_be_loaded(name) else f"{part}=..."
        yield (
            f"The {'environment' if part == 'env' else part} is code that is not among these files, `{name}`: whoever "
            f'loads the policy needs it, and names it, `veldt.load("DIRECTORY", {argument})`, or gives `trust=True` '
            "where its module can be imported."
        )
    if config.plugins:
        for module in config.plugins:
            package = plugin_distributions.get(module)
            yield (
                f"It needs the plug-in `{module}` of the package `{package}`, which veldt finds where it is installed."
                if package
                else f"It needs the plug-in `{module}` (`--plugin`, or an import of it before `veldt.load`)."
            )


def _graph(graph: Mapping[str, Sequence[GraphArray]], files: Sequence[str]) -> Iterator[str]:
    inputs, outputs = graph["inputs"], graph["outputs"]
    yield "## The graph"
    yield (
        f"Without veldt: {', '.join(f'`{name}`' for name in GRAPHS if name in files)}. The preprocessing "
        "above is in the graph, except that of Atari's frames. It computes in float32; the first axis N is the batch, "
        "of any size."
    )
    rows = [("input", array) for array in inputs] + [("output", array) for array in outputs]
    yield "\n".join(
        [
            "| | name | dtype | shape | meaning |",
            "| --- | --- | --- | --- | --- |",
            *(
                f"| {kind} | `{array.name}` | {array.dtype} | [{', '.join(['N', *map(str, array.shape)])}] | "
                f"{array.meaning} |"
                for kind, array in rows
            ),
        ]
    )
    if ONNX in files:
        given = ", ".join(
            f'{json.dumps(array.name, ensure_ascii=False)}: np.{_fill(array)}({(1, *array.shape)}, "{array.dtype}")'
            for array in inputs
        )
        yield (
            "```python\nimport numpy as np\nimport onnxruntime\n\n"
            f'session = onnxruntime.InferenceSession("{ONNX}")\ninputs = {{{given}}}\n'
            "outputs = dict(zip([each.name for each in session.get_outputs()], session.run(None, inputs)))\n"
            'print(outputs["action"])\n```'
        )
    loaders = {
        TORCH: f'torch.export.load("{TORCH}").module()',
        AOT: f'torch._inductor.aoti_load_package("{AOT}")',
    }
    for loader in (loader for name, loader in loaders.items() if name in files):
        given = ", ".join(
            f"torch.{_fill(array)}({(1, *array.shape)}, dtype=torch.{array.dtype})" for array in inputs
        )
        names = ", ".join(array.name for array in outputs)
        yield (
            f"```python\nimport torch\n\npolicy = {loader}\n"
            f"{names}{',' if len(outputs) == 1 else ''} = policy({given})\n```"
        )


def _fill(array: GraphArray) -> str:
    """What an example is filled with: its observation is the first of an episode."""
    return "ones" if array.name == RESET else "zeros"


def _reproduction(agent: Agent, run: Mapping[str, Any]) -> Iterator[str]:
    yield "## Train it again"
    yield f"```sh\n{training_command(agent.config, run)}\n```"
    yield (
        f"All settings and the versions are in `{CONFIG}` (there with the precision of this export, fp32). The files "
        f"were made with Python {platform.python_version()} and torch {torch.__version__}."
    )
