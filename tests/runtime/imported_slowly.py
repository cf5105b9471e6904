"""Ends or stops the first fork server that imports it; all of them with ALWAYS."""

from __future__ import annotations

import os
import signal
from pathlib import Path

if "SERVER_SIGNAL" in os.environ:
    first = Path("imported")
    if not first.exists() or "ALWAYS" in os.environ:
        first.touch()
        os.kill(os.getpid(), signal.Signals(int(os.environ["SERVER_SIGNAL"])))
