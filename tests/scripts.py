"""Scripts of users, in this process: its fork server is warm, and torch is imported."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest


def run_script(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does what `python SCRIPT` does in the directory of the script, whose modules are forgotten afterwards.

    Functions of the script are in `__main__`, so that other processes get them by their code.
    """
    folder, before = script.parent.resolve(), set(sys.modules)
    with monkeypatch.context() as patched:
        patched.chdir(folder)
        patched.syspath_prepend(folder)
        patched.setattr(sys, "argv", [str(script)])
        try:
            runpy.run_path(str(script), run_name="__main__")
        finally:
            for name in set(sys.modules) - before:
                file = getattr(sys.modules[name], "__file__", None)
                if file is not None and folder in Path(file).parents:
                    del sys.modules[name]
