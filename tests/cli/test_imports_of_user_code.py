"""Where the module of the user's code cannot be imported, the command names the flag's part and the module's line."""

from __future__ import annotations

from pathlib import Path

import pytest

import veldt
from veldt.cli import main
from veldt.config.system_registry import SystemEntry
from veldt.config.system_settings import RolesConfig
from veldt.errors import PluginError

MODULES = {
    "wrong_syntax": ("x = 1\ny = (\n", "SyntaxError: '(' was never closed", 2),
    "imports_missing": (
        "x = 1\n\nimport no_such_module\n",
        "ModuleNotFoundError: No module named 'no_such_module'",
        3,
    ),
    # A name that the module's own name begins with is not that of the module.
    "failing_alike": ("import failing\n", "ModuleNotFoundError: No module named 'failing'", 1),
    "raises": ("x = 1\n1 / 0\n", "ZeroDivisionError: division by zero", 2),
}
# The arguments of each flag that names user code, with MODULE in the place of the module's name.
FLAGS = {
    "train ppo --env MODULE:make": "environment MODULE:make could not be imported",
    "train ppo --env MODULE:Own-v0": "environment MODULE:Own-v0 could not be imported",
    "train ppo --env CartPole-v1 --network MODULE:make": "network MODULE:make could not be imported",
    "train a2c --shared --env CartPole-v1 --core MODULE:make": "core MODULE:make could not be imported",
    "train ppo --env CartPole-v1 --actor MODULE:make": "actor MODULE:make could not be imported",
    "train ppo --env CartPole-v1 --critic MODULE:make": "critic MODULE:make could not be imported",
    "train dqn --env CartPole-v1 --model MODULE:make": "model MODULE:make could not be imported",
    "train ppo --env CartPole-v1 --callback MODULE:make": "callback MODULE:make could not be imported",
    "train ppo --env CartPole-v1 --log MODULE:make": "logger MODULE:make could not be imported",
    "train ppo --env CartPole-v1 --learning-rate MODULE:make": (
        "--learning-rate's schedule MODULE:make could not be imported"
    ),
    "train ppo --env CartPole-v1 --clip MODULE:make": "--clip's schedule MODULE:make could not be imported",
    "train dqn --env CartPole-v1 --epsilon MODULE:make": "--epsilon's schedule MODULE:make could not be imported",
    "train ppo --plugin MODULE --env CartPole-v1": "the plug-in MODULE failed when it was imported",
    "tune ppo --env MODULE:make --trials 1": "environment MODULE:make could not be imported",
    "resume RUN --callback MODULE:make": "callback MODULE:make could not be imported",
    "resume RUN --log MODULE:make": "logger MODULE:make could not be imported",
    "evaluate RUN --env MODULE:make": "environment MODULE:make could not be imported",
    "watch RUN --network MODULE:make": "network MODULE:make could not be imported",
}


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("arguments", FLAGS)
def test_the_part_and_the_line_are_named(
    arguments: str,
    module: str,
    finished_run: Path,
    in_tmp: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text, raised, line = MODULES[module]
    (in_tmp / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(in_tmp)
    words = [word.replace("MODULE", module) for word in arguments.split()]
    with pytest.raises(SystemExit) as stopped:
        main([str(finished_run) if word == "RUN" else word for word in words])
    said = capsys.readouterr().err
    assert stopped.value.code == 1, said
    sentence, *_ = (text for text in said.splitlines() if text.startswith("veldt: "))
    assert (
        sentence.startswith(f"veldt: {FLAGS[arguments].replace('MODULE', module)}") and raised in sentence
    ), said
    assert "unexpected" not in said
    assert f'{module}.py", line {line}' in said
    assert not (in_tmp / "runs").exists()


def test_the_graph_of_a_plugins_system(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (in_tmp / "wrong_graph.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(in_tmp)
    entry = SystemEntry(RolesConfig, "wrong_graph:make", frozenset())
    with pytest.raises(PluginError, match=r"graph wrong_graph:make could not be imported: ZeroDivisionError"):
        entry.load_graph()


def test_a_callback_in_python(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (in_tmp / "wrong_callback.py").write_text("y = (\n")
    monkeypatch.syspath_prepend(in_tmp)
    with pytest.raises(PluginError, match="callback wrong_callback:make could not be imported: SyntaxError"):
        veldt.train("ppo", env="CartPole-v1", callback="wrong_callback:make")
