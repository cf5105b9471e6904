"""The public Python API: train, resume, reproduce, evaluate, record_starts, load, export, list_recipes."""

from veldt.api.exporting import export
from veldt.api.playing import PROTOCOLS, evaluate, load, record_starts
from veldt.api.reproducing import Reproduction, reproduce
from veldt.api.training import drawn, list_recipes, resume, train, train_config
from veldt.exporting.write import Export
from veldt.systems.run import Run

__all__ = [
    "PROTOCOLS",
    "Export",
    "Reproduction",
    "Run",
    "drawn",
    "evaluate",
    "export",
    "list_recipes",
    "load",
    "record_starts",
    "reproduce",
    "resume",
    "train",
    "train_config",
]
