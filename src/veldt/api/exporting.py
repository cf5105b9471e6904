"""The public function that exports a trained policy."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from veldt.api.foreign_arguments import answers
from veldt.api.loading import load_agent
from veldt.api.playing import evaluate
from veldt.config.run_code import CodeChoice, Env, Part
from veldt.errors import UsageError
from veldt.evaluation.evaluator import refuse_no_episode
from veldt.evaluation.foreign_names import OF_EXPORT, answer
from veldt.exporting.card import evaluation_facts
from veldt.exporting.write import Export, write_export
from veldt.networks.own import OwnParts
from veldt.runs.directory import RunDirectory
from veldt.runs.export_files import refuse_place
from veldt.runs.files import from_here
from veldt.runs.own_names import GRAPHS
from veldt.runtime.usual_torch import usual_torch
from veldt.setting_metadata import check_path, check_type
from veldt.setting_text import flag
from veldt.user_code.attribution import naming_user_code

EXPORT_NAME = "export"


@answers(partial(answer, OF_EXPORT))
@naming_user_code()
@usual_torch()
def export(
    run: str | os.PathLike[str],
    *,
    out: str | Path | None = None,
    onnx: bool = False,
    torch_export: bool = False,
    aot_inductor: bool = False,
    video: bool = True,
    episodes: int | None = None,
    protocol: str | None = None,
    seed: int = 0,
    greedy: bool = False,
    best: bool = False,
    env: Env | None = None,
    network: Part | None = None,
    core: Part | None = None,
    actor: Part | None = None,
    critic: Part | None = None,
    model: Part | None = None,
    trust: bool = False,
) -> Export:
    """Writes a run's policy in the layout of a model repository: weights, configuration, model card and video.

    Args:
        run: the run directory.
        out: the directory to make, or an older export to replace; default `export` in the run directory.
        onnx: also write policy.onnx, which needs the extra `veldt[onnx]`.
        torch_export: also write policy.pt2, which torch loads without veldt.
        aot_inductor: also write policy-aot.pt2, compiled for this machine's processor, which needs a C++ compiler.
        video: also write replay.mp4, where the environment can be drawn.
        episodes, protocol, seed, greedy: of the evaluation on the model card, as for `evaluate`.
        best, env, network, core, actor, critic, model, trust: as for `load`.

    Returns:
        The directory and the names of the files in it.

    Raises:
        UsageError: `out` is there and is no export, a package or compiler is missing, or as for `evaluate` and `load`.
        CheckpointError: as for `load`.
        EnvError: the env failed.
        VeldtError: the network cannot be captured as a graph, or a file could not be written.
    """
    check_path(flag("out"), out)
    wanted = {"onnx": onnx, "torch_export": torch_export, "aot_inductor": aot_inductor}
    for name, value in {**wanted, "video": video}.items():
        check_type(flag(name), value, bool)
    directory = RunDirectory.open(run)
    path = directory.path / EXPORT_NAME if out is None else Path(out)
    place = path.absolute()
    refuse_place(path)
    graphs = [name for name, is_wanted in zip(GRAPHS, wanted.values(), strict=True) if is_wanted]
    if onnx:
        from veldt.exporting.graph_files import refuse_missing_packages

        refuse_missing_packages()
    if aot_inductor:
        from veldt.exporting.compiled_graph import refuse_uncompilable

        refuse_uncompilable()
    choice = CodeChoice(env, OwnParts(network, core, actor, critic, model), trust)
    agent = load_agent(run, best, choice, "cpu", "export(run, {})", fp32=True)
    protocol = protocol or "episodes"
    if protocol == "human-starts":
        raise UsageError(
            "--protocol is human-starts, and an export's evaluation begins at the reset: give episodes or atari"
        )
    result = evaluate(agent, episodes=episodes, protocol=protocol, seed=seed, greedy=greedy)
    refuse_no_episode(result, agent)
    facts = evaluation_facts(result, protocol, seed, greedy)
    made = write_export(agent, directory.read_config(), facts, place, graphs=graphs, video=video)
    return replace(made, path=from_here(path, place))
