"""A plug-in's algorithm whose loss always fails ends the run with its error, wherever the learner works."""

from __future__ import annotations

from pathlib import Path

import pytest

from veldt.cli import main

MODULE = '''
import dataclasses

import veldt
from veldt.algorithms.vtrace import VTrace, VTraceConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrokenConfig(VTraceConfig):
    """Settings of an algorithm that cannot learn."""


class Broken(VTrace):
    name = "broken"

    def loss(self, forward, batch, progress):
        raise KeyError("no such thing")


veldt.register_algorithm("broken", Broken, BrokenConfig)
'''


@pytest.mark.timeout(100)
@pytest.mark.parametrize("steps", ["2000", "10_000_000"])
def test_the_run_does_not_end_as_if_it_had_learned(
    steps: str, in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Actors do all the steps of a short run before the learner's third error; a long one is ended by that."""
    (in_tmp / "broken_loss.py").write_text(MODULE)
    monkeypatch.syspath_prepend(in_tmp)
    command = ["train", "impala", "--plugin", "broken_loss", "--algorithm", "broken", "--env", "CartPole-v1"]
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--steps", steps])
    said = capsys.readouterr().err
    assert stopped.value.code == 1
    named = "algorithm 'broken' (module broken_loss) raised in Broken.loss: KeyError: 'no such thing'"
    assert named in said and "broken_loss.py" in said
