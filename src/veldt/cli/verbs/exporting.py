"""The verb that exports a policy."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from veldt.cli.arguments import Positional, parse
from veldt.cli.run_code import RunCode
from veldt.evaluation.foreign_names import OF_EXPORT, answer


@dataclass(frozen=True, kw_only=True)
class Export(RunCode):
    """Write a run's policy as a model repository: weights, configuration, model card, video, and on demand a graph that
    runs without veldt."""

    run: Annotated[Path, Positional]
    """The run's directory."""
    out: Path | None = None
    """The directory to make, or an older export to replace; export in the run if not given."""
    onnx: bool = False
    """Also write policy.onnx, for ONNX runtimes; needs veldt[onnx]."""
    torch_export: bool = False
    """Also write policy.pt2, for torch.export.load."""
    aot_inductor: bool = False
    """Also write policy-aot.pt2, compiled for this machine's processor (AOTInductor); needs a C++ compiler."""
    video: bool = True
    """Also write replay.mp4, where the environment can be drawn."""
    episodes: int | None = None
    """Episodes of the evaluation on the model card; 30 if not given."""
    protocol: Literal["episodes", "atari"] | None = None
    """episodes: plays --episodes; atari: plays the run's --evaluate-steps (125,000), and the episodes that end in them
    count."""
    seed: int = 0
    """Fixes the episodes."""
    greedy: bool = False
    """Take the best action in the evaluation and the video instead of exploring as the algorithm does in evaluation."""
    best: bool = False
    """Use the checkpoint with the best mean return of 100 episodes instead of the newest."""


def export(arguments: list[str]) -> str:
    asked = parse(Export, arguments, "export", partial(answer, OF_EXPORT))
    from veldt import api

    given = {field.name: getattr(asked, field.name) for field in dataclasses.fields(asked)}
    made = api.export(given.pop("run"), **given)
    lines = [f"{made.path}: {', '.join(made.files)}; raw return {made.mean:,.1f}"]
    lines += [
        f"{name}: at most {difference:.0e} from the policy's own numbers"
        for name, difference in made.differences.items()
    ]
    if made.no_video and asked.video:
        lines.append(f"no video: {made.no_video}")
    return "\n".join(lines)
