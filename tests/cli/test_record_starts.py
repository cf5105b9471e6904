"""Recording starts and evaluating from them on the command line; what goes wrong is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from veldt.cli import main


def test_recorded_and_evaluated(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["record-starts", str(run), "--starts", "6"])
    starts = run / "starts.safetensors"
    assert capsys.readouterr().out.startswith(f"{starts}: 6 starts of CartPole-v1, ")
    main(["evaluate", str(run), "--starts", str(starts)])
    assert f": 6 episodes from {starts}, raw return " in capsys.readouterr().out
    main(["evaluate", str(run), "--starts", str(starts), "--protocol", "human-starts", "--json"])
    metrics = json.loads(capsys.readouterr().out)
    assert metrics["episodes"] == 6 == len(metrics["scores"]) and metrics["starts"] == str(starts)


def test_no_file_is_overwritten(run: Path, refused: Any) -> None:
    (run / "starts.safetensors").write_text("of weeks ago")
    said = refused("record-starts", str(run), "--starts", "6")
    assert said.startswith(f"--out {run / 'starts.safetensors'} exists already, and scores may rest on it")
    assert (run / "starts.safetensors").read_text() == "of weeks ago"


EVALUATE = {
    "--protocol human-starts": "--protocol human-starts needs --starts, a file that `veldt record-starts` makes",
    "--protocol episodes --starts x": "--starts is x, and --protocol episodes plays episodes from their beginning",
    "--protocol atari --starts x": "--starts is x, and --protocol atari plays episodes from their beginning",
    "--starts x --episodes 3": "--episodes is 3, and --protocol human-starts plays one episode from each start: leave",
    "--starts x": "--starts x: there is no such file; `veldt record-starts RUN` makes one",
    "--starts .": "--starts . is not a file: name the file of starts",
    "--starts empty": "--starts empty is empty: `veldt record-starts RUN` makes one",
    "--starts text": "--starts text is not a file of starts, or it is damaged",
    "--protocol human": "--protocol is 'human': it must be one of episodes, atari, human-starts",
}


@pytest.mark.parametrize("arguments", EVALUATE)
def test_starts_that_do_not_fit_are_refused(
    arguments: str, run: Path, refused: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    Path("text").write_text("start here, please")
    assert EVALUATE[arguments] in refused("evaluate", str(run), *arguments.split())


def test_a_file_that_may_not_be_read(run: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = run / "starts.safetensors"
    starts.touch()

    def denied(path: Path, longest: int) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("veldt.evaluation.starts_file.read_file", denied)
    assert refused("evaluate", str(run), "--starts", str(starts)) == (
        f"--starts {starts} cannot be read: Permission denied"
    )
