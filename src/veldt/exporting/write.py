"""Writes an export: the files of a model repository, each made from a loaded policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from veldt.agent import Agent
from veldt.errors import EnvError, UsageError
from veldt.evaluation.played_frames import draw_without_screen, not_drawn, played_frames
from veldt.evaluation.rendered_env import RenderedEnv
from veldt.evaluation.video_file import write_video
from veldt.exporting.card import model_card
from veldt.exporting.raw_observations import GraphArray
from veldt.exporting.stored_export import export_config
from veldt.runs import strict_json
from veldt.runs.export_files import new_export
from veldt.runs.files import write_new_file
from veldt.runs.own_names import CARD, CONFIG, GRAPHS, VIDEO, WEIGHTS
from veldt.runs.tensor_file import write_tensors

_LONGEST_VIDEO = 120  # seconds
_NOT_ASKED = "it was left out"


@dataclass(frozen=True)
class Export:
    """What `export` wrote: the names of the `files` in the directory `path`; the raw `mean` return of the evaluation.

    `no_video` says why there is no video, None if there is one. `differences` has the largest difference between each
    graph's outputs and the policy's, relative to numbers above 1, by file.
    """

    path: Path
    files: list[str]
    mean: float
    no_video: str | None = None
    differences: dict[str, float] = field(default_factory=dict)


def write_export(
    agent: Agent,
    run: Mapping[str, Any],
    facts: Mapping[str, Any],
    out: Path,
    *,
    graphs: Sequence[str],
    video: bool,
) -> Export:
    """Writes the directory `out`, or replaces the export that is there, as a whole.

    Args:
        run: the run's config.json.
        facts: the evaluation, see `evaluation_facts`.
        graphs: which of GRAPHS to write.

    Raises:
        UsageError: `out` is no place for it, or the observation space does not fit into a graph.
        VeldtError: a graph could not be made, or a file could not be written.
    """
    with new_export(out) as folder:
        digest, size = write_tensors(folder / WEIGHTS, _weights(agent))
        arrays, differences = _write_graphs(agent, folder, graphs)
        no_video = _write_video(agent, folder / VIDEO, facts) if video else _NOT_ASKED
        weights = {"sha256": digest, "size": size}
        values = export_config(agent, run, facts, weights, arrays)
        write_new_file(folder / CONFIG, (strict_json.dumps(values, indent=2) + "\n").encode())
        names = [name for name in (WEIGHTS, CONFIG, VIDEO, *GRAPHS) if (folder / name).exists()]
        card = model_card(agent, run, facts, names, no_video, arrays)
        write_new_file(folder / CARD, card.encode())
    return Export(out, [CARD, *names], facts["mean"], no_video, differences)


def _weights(agent: Agent) -> dict[str, np.ndarray]:
    """The parameters and buffers, in the layout of other libraries' files: not channels-last."""
    tensors = {**dict(agent.network.named_parameters()), **dict(agent.network.named_buffers())}
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}


def _write_graphs(
    agent: Agent, folder: Path, names: Sequence[str]
) -> tuple[dict[str, list[GraphArray]], dict[str, float]]:
    if not names:
        return {}, {}
    from veldt.exporting import graph_files
    from veldt.exporting.policy_graph import PolicyGraph

    graph = PolicyGraph(agent)
    program = graph_files.captured(graph)
    for name in names:
        graph_files.write_graph(program, graph, folder / name)
    differences = {name: graph_files.largest_difference(agent, graph, folder / name) for name in names}
    return {"inputs": graph.inputs, "outputs": graph.outputs}, differences


def _write_video(agent: Agent, path: Path, facts: Mapping[str, Any]) -> str | None:
    """Writes an episode, or its beginning. Returns why the environment cannot be shown; None if it was."""
    draw_without_screen()
    try:
        rendered = RenderedEnv(agent.source, agent.config.atari)
    except UsageError as error:
        return str(error)
    except EnvError as error:
        return _drawing_failed(agent, error)
    fps = rendered.steps_per_second
    try:
        frames = played_frames(agent, rendered, facts["seed"], facts["greedy"], [])
        write_video(islice(frames, int(_LONGEST_VIDEO * fps)), path, fps)
    except UsageError as error:
        return str(error)
    except EnvError as error:
        return _drawing_failed(agent, error)
    finally:
        rendered.close()
    return None


def _drawing_failed(agent: Agent, error: EnvError) -> str:
    if isinstance(error.__cause__, gymnasium.error.DependencyNotInstalled):
        return not_drawn(agent.source.name, error.__cause__)
    return str(error).splitlines()[0]
