"""A Ray for one run leaves the process that supervises the run enough of the cores."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_GROUP = Path("/proc/self/autogroup")


@pytest.mark.skipif(not _GROUP.exists(), reason="sessions have no weight here")
def test_its_session_stands_back_and_no_other_does() -> None:
    before = _GROUP.read_text()
    code = "from veldt.runtime.on_ray import head; head._stand_back(); print(open('/proc/self/autogroup').read())"
    said = subprocess.run(
        [sys.executable, "-c", code],
        start_new_session=True,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert said.stdout.split()[-1] == "5"
    assert _GROUP.read_text() == before
