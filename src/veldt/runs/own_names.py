"""The names of the files that veldt writes into a run; all other files there are the user's."""

from __future__ import annotations

import re
from dataclasses import dataclass

CONFIG, SUMMARY, EVENTS, LOCK = "config.json", "summary.json", "events.jsonl", "lock"
METRICS, EPISODES, ACTIONS = "metrics.jsonl", "episodes.jsonl", "actions.bin"
IN_PLACE = (EVENTS, LOCK, METRICS, EPISODES, ACTIONS)  # appended to and truncated; other files are replaced
CHECKPOINTS, REPLAY, TENSORBOARD = "checkpoints", "replay", "tensorboard"
MANIFEST = "manifest.json"
# Of an export, which has a config.json, too: this key of it says which of the two a directory is.
EXPORT_FORMAT = "veldt_export"
WEIGHTS, CARD, VIDEO = "model.safetensors", "README.md", "replay.mp4"
GRAPHS = ONNX, TORCH, AOT = "policy.onnx", "policy.pt2", "policy-aot.pt2"

STEP = re.compile(r"step-([0-9]{12,})(\.old)?")
PARTIAL = ".partial-"  # prefix of the name of a checkpoint that is being written or removed
# `tempfile.mkdtemp` appends eight characters; a checkpoint that is being removed keeps its name after the prefix.
PARTIAL_STEP = re.compile(rf"{re.escape(PARTIAL)}([a-z0-9_]{{8}}|{STEP.pattern})")
GROUP = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*)\.safetensors")
SEGMENT = re.compile(r"rows-([0-9]{6,})\.safetensors")
SHARD = re.compile(r"(shard|learner)-[0-9]+")  # a part of the replay buffer in replay/
RENDEZVOUS = ".learners-"  # prefix of the rendezvous files of several learners


@dataclass(frozen=True)
class Names:
    """Names in one directory: of files, and of subdirectories, each with the names in it."""

    files: re.Pattern[str]
    directories: tuple[tuple[re.Pattern[str], Names], ...] = ()


def one_of(*names: str) -> re.Pattern[str]:
    """Returns a pattern that matches these names only."""
    return re.compile("|".join(map(re.escape, names)))


_NONE = re.compile("(?!)")
_FILES = one_of(CONFIG, SUMMARY, *IN_PLACE).pattern

OF_CHECKPOINT = Names(re.compile(rf"{re.escape(MANIFEST)}|{GROUP.pattern}"))
OF_CHECKPOINTS = Names(_NONE, ((STEP, OF_CHECKPOINT), (PARTIAL_STEP, OF_CHECKPOINT)))
OF_SHARD = Names(re.compile(rf"{SEGMENT.pattern}(\.partial)?"))
OF_REPLAY = Names(_NONE, ((SHARD, OF_SHARD),))
OF_TENSORBOARD = Names(re.compile(r"events\.out\.tfevents\.[0-9]+\.[0-9]+\..+"))
OF_RENDEZVOUS = Names(re.compile(rf"{re.escape(RENDEZVOUS)}[0-9a-f]{{32}}(-[0-9]+)?"))
OF_RUN = Names(
    re.compile(rf"{_FILES}|\.({_FILES})\.[0-9]+\.partial|{OF_RENDEZVOUS.files.pattern}"),
    (
        (one_of(CHECKPOINTS), OF_CHECKPOINTS),
        (one_of(REPLAY), OF_REPLAY),
        (one_of(TENSORBOARD), OF_TENSORBOARD),
    ),
)
OF_EXPORT = Names(
    re.compile(rf"{one_of(CONFIG, WEIGHTS, CARD, VIDEO, *GRAPHS).pattern}|\.replay\.[0-9]+\.partial\.mp4")
)
