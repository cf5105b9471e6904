"""Parts of a network that a foreign run names can be named by flags, as the refusal of the run says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from veldt.cli import main
from veldt.user_code import trusted

MODULE = """
from torch import nn

def actor(spec):
    return nn.Linear(spec.observation_shape[0], spec.action.sizes[0])
"""
TRAIN = (
    "train ppo --env CartPole-v1 --actor named_parts:actor --run-dir run --num-envs 4 --batch-size 64 "
    "--minibatches 2"
)


def test_every_verb_takes_the_flag_that_its_refusal_names(
    in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (in_tmp / "named_parts.py").write_text(MODULE)
    monkeypatch.setattr(trusted, "_of_this_process", set())
    monkeypatch.setenv("XDG_STATE_HOME", str(in_tmp / "state"))
    main(f"{TRAIN} --steps 64 --env-backend in-process --threads 1".split())
    for verb in ("evaluate run --episodes 1", "record-starts run --starts 1", "resume run --steps 128"):
        monkeypatch.setattr(trusted, "_of_this_process", set())
        monkeypatch.setenv("XDG_STATE_HOME", str(in_tmp / "other"))
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main(verb.split())
        assert "name it yourself with --actor named_parts:actor" in capsys.readouterr().err
        main([*verb.split(), "--actor", "named_parts:actor"])


def test_a_run_without_code_of_ones_own_needs_no_place_to_write_down_such_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    assert trusted.remember(()) is None
