"""Layers that do not fit into memory are refused before they are made."""

from __future__ import annotations

from pathlib import Path

import pytest

import veldt


def test_the_sentence_names_the_setting_and_the_memory(tmp_path: Path) -> None:
    with pytest.raises(veldt.UsageError, match=r"--hidden is 1000000 1000000: such layers need 14,901 GiB"):
        veldt.train(
            "ppo", env="CartPole-v1", run_dir=tmp_path / "run", quiet=True, hidden=(1_000_000, 1_000_000)
        )
    assert not (tmp_path / "run").exists()
