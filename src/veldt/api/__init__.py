"""The public Python API: train, resume, evaluate, record_starts, load, list_recipes."""

from veldt.api.playing import PROTOCOLS, evaluate, load, record_starts
from veldt.api.training import drawn, list_recipes, resume, train, train_config
from veldt.systems.run import Run

__all__ = [
    "PROTOCOLS",
    "Run",
    "drawn",
    "evaluate",
    "list_recipes",
    "load",
    "record_starts",
    "resume",
    "train",
    "train_config",
]
