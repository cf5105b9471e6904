"""examples/recurrent_network.py learns a task that needs memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import veldt

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_example_recalls_what_it_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By chance, half of the answers are right."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "recurrent_network", raising=False)
    import recurrent_network as example  # type: ignore[import-not-found]

    run = example.main(run_dir=tmp_path / "run", quiet=True, threads=1, device="cpu")
    assert run.reason == "until"
    agent = veldt.load(run.path)
    assert veldt.evaluate(agent, episodes=50, greedy=True).mean > 0.9
