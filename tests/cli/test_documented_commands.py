"""Every command in the documentation runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import veldt
from documentation import PAGES, ROOT, write_files
from starts_files import write
from veldt.api import training
from veldt.cli import main
from veldt.cli.entry import VERBS
from veldt.cli.verbs import play
from veldt.experiments import run as experiments
from veldt.exporting import graph_files
from veldt.systems.run import run_system
from veldt.tuning import run as tuning

BLOCK = re.compile(r"^```(?:sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
# In a line of a block of commands, or in a sentence.
COMMAND = re.compile(r"^(?:\$ )?veldt ([^#\n]*)|`veldt ([^`]+)`", re.MULTILINE)
SCRIPT = re.compile(r"^(?:\$ )?python (\w+/[\w/.]+)|`python (\w+/[\w/.]+)[^`]*`", re.MULTILINE)
TARGET = re.compile(r"^(?:\$ )?make (\w+)|`make (\w+)[^`]*`", re.MULTILINE)
EXTRA = re.compile(r"pip install '\.\[([\w,]+)\]'")
PLACES = {
    "ENV": "CartPole-v1",
    "RECIPE": "ppo",
    "NAME": "ppo",
    "ALGORITHM": "a2c",
    "DIRECTORY": "starts",
}
# Code of a page that does not show it as a file.
CODE = {"mine:make_env": "gymnasium:make", "mine:network": "torch.nn:Linear"}


def found_in(page: Path, pattern: re.Pattern[str]) -> set[str]:
    """What a pattern finds in a page: its first group in blocks of commands, its second in sentences."""
    text = page.read_text()
    in_blocks = {a for block in BLOCK.findall(text) for a, _ in pattern.findall(block) if a}
    return {" ".join(found.split()) for found in in_blocks | {b for _, b in pattern.findall(text) if b}}


def commands() -> dict[str, Path]:
    """Returns the commands, and the first page that has each."""
    a_verb_alone = set(VERBS) - {"doctor"}  # only its name
    found = {
        command: page
        for page in reversed(PAGES)
        for command in found_in(page, COMMAND)
        if command not in a_verb_alone
    }
    return dict(sorted(found.items()))


class Parsed(Exception):
    """Stands for a training that would now begin."""


def stop_if_new(request: Any, options: Any, open_directory: Any, *resumed: Any) -> Any:
    if not resumed:
        raise Parsed
    return run_system(request, options, open_directory, *resumed)


def stop(*request: Any, **options: Any) -> Any:
    raise Parsed


def touch(program: Any, graph: Any, path: Path) -> None:
    """Stands for the writing of a graph, which tests/exporting has."""
    path.touch()


@pytest.mark.parametrize(("command", "page"), commands().items())
def test_documented_commands_run(
    command: str, page: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = [PLACES.get(word, word) for word in shlex.split(command.replace("[RUN ...]", "RUN"))]
    if not (tmp_path / "mine.py").exists():
        words = [CODE.get(word, word) for word in words]
    words = [str(run) if word == "RUN" or word.startswith("runs/") else word for word in words]
    if "FILE" in words:
        starts = veldt.record_starts(run, starts=2)
        words = [str(starts.path) if word == "FILE" else word for word in words]
    if "starts" in words:
        write(tmp_path / "starts")
    elif "starts/Pong.safetensors" in words:
        (tmp_path / "starts").mkdir()
    monkeypatch.setattr(training, "run_system", stop_if_new)
    monkeypatch.setattr(play, "record", stop)
    monkeypatch.setattr(experiments, "run_experiment", stop)
    monkeypatch.setattr(tuning, "tune", stop)
    monkeypatch.setattr(graph_files, "captured", lambda graph: None)
    monkeypatch.setattr(graph_files, "write_graph", touch)
    monkeypatch.setattr(graph_files, "largest_difference", lambda *_: 0.0)
    if "--seconds" in words:  # of each measurement
        words[words.index("--seconds") + 1] = "0.1"
    if words[:2] == ["experiment", PLACES["NAME"]]:
        words[1] = "norms"
    if words[0] == "train" and "--env" not in words:  # in a sentence about something else
        words += ["--env", "CartPole-v1"]
    try:
        main([*words, "--debug"])
    except SystemExit as stopped:  # after --help
        assert not stopped.code
    except Parsed:
        assert words[0] in ("train", "experiment", "tune", "bench", "record-starts")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_scripts_targets_and_extras_exist(page: Path) -> None:
    for script in found_in(page, SCRIPT):
        assert (ROOT / script).exists(), f"{page.name}: python {script}"
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert found_in(page, TARGET) <= targets
    extras = {extra for names in EXTRA.findall(page.read_text()) for extra in names.split(",")}
    declared = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", declared, re.MULTILINE) for extra in extras)
