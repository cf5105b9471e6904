"""The stages of training for time measurement, in display order, with their colours."""

from __future__ import annotations

STAGES = ("simulate", "infer", "replay", "train", "evaluate", "wait")

# One hue per stage, grey for idle; readable on dark and on light backgrounds.
TERMINAL_COLOURS = {
    "simulate": "#5b8def",
    "infer": "#2fb5a0",
    "replay": "#b07cc6",
    "train": "#e8954a",
    "evaluate": "#5fa85f",
    "wait": "#8a8f98",
}
