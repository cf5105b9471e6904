"""A traceback shows the user only the lines of the user's code."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import veldt
from environments import Scripted
from veldt.cli.tracebacks import users_part
from veldt.envs.arrangement import probe_spec, time_step
from veldt.envs.settings import AtariConfig
from veldt.envs.source import resolve
from veldt.errors import EnvError


class Wrong(Scripted):
    """Returns something that is no observation, or raises."""

    def __init__(self, how: str) -> None:
        super().__init__([(5, "terminated")])
        self._how = how

    def step(self, action: object) -> tuple[object, ...]:  # type: ignore[override]
        if self._how == "raise":
            try:
                return {}["wheel"]
            except KeyError as error:
                raise RuntimeError("the wheel came off") from error
        good = np.zeros(3, np.float32)
        if self._how == "group":
            raise ExceptionGroup("two players", [ValueError("lost"), KeyError("left")])
        if self._how == "exit":
            raise SystemExit("no licence")
        return {
            "count": (good, 0.0, False),
            "dtype": (np.array(["a", "b", "c"]), 0.0, False, False, {}),
            "shape": (np.zeros(4, np.float32), 0.0, False, False, {}),
            "none": (None, 0.0, False, False, {}),
            "ragged": ([[1], [2, 3], 4], 0.0, False, False, {}),
            "flag": (good, 0.0, float("nan"), False, {}),
        }[self._how]


def failed(how: str) -> tuple[str, str]:
    """The message and the traceback of an environment, wrapped as Gymnasium wraps them, that fails in a step."""
    source = resolve(lambda: gymnasium.wrappers.OrderEnforcing(Wrong(how)))
    with pytest.raises(EnvError) as caught:
        time_step(source, AtariConfig(), 10.0)
    return str(caught.value), caught.value.details


def test_a_traceback_begins_in_the_users_file() -> None:
    _, details = failed("raise")
    shown = users_part(details)
    package = f'File "{Path(veldt.__file__).parent}/'
    assert package in details and package not in shown and "gymnasium" not in shown
    assert shown.count("Traceback") == 2 and "direct cause" in shown and "KeyError" in shown
    assert shown.endswith("RuntimeError: the wheel came off")
    first_frame = shown.splitlines()[1]
    assert str(Path(__file__).name) in first_frame


def test_no_sentence_announces_an_exception_that_is_left_out() -> None:
    """veldt's own error, which the environment's exit caused, is the message above."""
    _, details = failed("exit")
    assert "direct cause" in details and users_part(details).endswith("SystemExit: no licence")


def test_a_group_of_exceptions_is_shown_with_its_parts() -> None:
    _, details = failed("group")
    shown = users_part(details)
    assert "ValueError: lost" in shown and "KeyError: 'left'" in shown


@pytest.mark.parametrize("folder", ["veldt", "src/veldt", "veldt/src/veldt/envs", "wörk dir/veldt"])
def test_a_users_file_in_a_folder_called_veldt_is_the_users(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "mine_in_veldt.py").write_text("def make():\n    raise RuntimeError('no wheel')\n")
    monkeypatch.syspath_prepend(str(tmp_path / folder))
    monkeypatch.delitem(sys.modules, "mine_in_veldt", raising=False)
    with pytest.raises(EnvError) as caught:
        probe_spec(resolve("mine_in_veldt:make"), AtariConfig())
    shown = users_part(caught.value.details)
    assert f'File "{tmp_path / folder / "mine_in_veldt.py"}", line 2, in make' in shown


def test_the_package_is_recognised_by_its_directory_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(Path(veldt.__file__).parent, target_is_directory=True)
    frame = f'  File "{tmp_path}/link/api.py", line 1, in train\n    pass\n'
    mine = f'  File "{tmp_path}/veldt/mine.py", line 1, in step\n    pass\n'
    text = f"Traceback (most recent call last):\n{frame}{mine}RuntimeError: no wheel\n"
    assert users_part(text) == text.replace(frame, "").rstrip()


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (
            "count",
            "step() returned 3 values, and Gymnasium's environments return 5 values: the observation, reward",
        ),
        ("dtype", "the observation has dtype <U1, which does not convert to float32"),
        ("shape", "the observation has shape (4,), but the observation space declares (3,)"),
        ("none", "the observation is of type NoneType, but the observation space declares (3,)"),
        ("ragged", "the observation has parts of different shapes, but the observation space declares (3,)"),
        ("flag", "terminated is nan: step() must return True or False for it"),
    ],
)
def test_a_failed_check_has_no_traceback(how: str, sentence: str) -> None:
    """The sentence has the cause; veldt's own lines would not help the user."""
    message, details = failed(how)
    assert sentence in message
    assert users_part(details) == ""


def test_other_text_is_unchanged() -> None:
    text = 'Thread 0x1 (most recent call first):\n  File "mine.py", line 3 in step\n'
    assert users_part(text) == text and users_part("") == ""
