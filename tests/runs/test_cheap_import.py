"""Importing the package is fast: slow modules are imported where they are used."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import importlib, pkgutil, sys
import veldt.runs
for module in pkgutil.walk_packages(veldt.runs.__path__, "veldt.runs."):
    importlib.import_module(module.name)
slow = "torch matplotlib tensorboard rich imageio_ffmpeg safetensors google".split()
print(*(name for name in slow if name in sys.modules))
"""


def test_nothing_slow_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
