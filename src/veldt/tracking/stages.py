"""The stages of training that time is booked to, in the order and the colours in which they are always shown."""

from __future__ import annotations

STAGES = ("simulate", "infer", "replay", "train", "evaluate", "wait")

# One hue a stage, the idle one grey; legible on dark and on light backgrounds.
TERMINAL_COLOURS = {
    "simulate": "#5b8def",
    "infer": "#2fb5a0",
    "replay": "#b07cc6",
    "train": "#e8954a",
    "evaluate": "#5fa85f",
    "wait": "#8a8f98",
}
