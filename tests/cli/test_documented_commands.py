"""Every command in the documentation is one that works today."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import veldt
from veldt import api
from veldt.cli import main
from veldt.cli.entry import VERBS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# In a block of commands, or in a sentence.
COMMAND = re.compile(r"^(?:\$ )?veldt ([^#\n]*)|`veldt ([^`]+)`", re.MULTILINE)
PLACES = {
    "ENV": "CartPole-v1",
    "RECIPE": "ppo",
    "mine:make_env": "gymnasium:make",
    "mine:network": "torch.nn:Linear",
}


def commands() -> list[str]:
    found = {" ".join((a or b).split()) for page in PAGES for a, b in COMMAND.findall(page.read_text())}
    a_verb_alone = set(VERBS) - {"doctor"}  # only its name
    return sorted(found - a_verb_alone)


class Parsed(Exception):
    """Stands for a training that would now begin."""


def stop(*_: Any, **__: Any) -> None:
    raise Parsed


@pytest.mark.parametrize("command", commands())
def test_it_works(command: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [PLACES.get(word, word) for word in shlex.split(command.replace("[RUN ...]", "RUN"))]
    words = [str(run) if word == "RUN" else word for word in words]
    if "FILE" in words:
        starts = veldt.record_starts(run, starts=2)
        words = [str(starts.path) if word == "FILE" else word for word in words]
    monkeypatch.setattr(api, "train_config", stop)
    if words[0] == "train" and "--env" not in words:  # in a sentence about something else
        words += ["--env", "CartPole-v1"]
    try:
        main([*words, "--debug"])
    except SystemExit as stopped:  # after --help
        assert not stopped.code
    except Parsed:
        assert words[0] == "train"
