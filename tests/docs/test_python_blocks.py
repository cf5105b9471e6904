"""The Python in the documentation runs: the blocks of a page in order, as one script, with few training steps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from documentation import PAGES, ROOT, blocks_of, write_files

# Limits the steps of training, and hides its progress; everything else is as the page says.
FEW_STEPS = """
import functools, veldt.api
def _limited(function, most):
    @functools.wraps(function)
    def call(*args, steps=most, **settings):
        return function(*args, steps=min(steps, most), **settings | {"quiet": True})
    return call
veldt.api.train, veldt.api.resume = _limited(veldt.api.train, 2_000), _limited(veldt.api.resume, 3_000)
"""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def pages() -> list[Any]:
    """Returns the pages with blocks that run, and a skipped one for each block that does not."""
    listed = []
    for page in PAGES:
        blocks = [block for block in blocks_of(page) if not block.file]
        if not all(block.reason for block in blocks):
            listed.append(pytest.param(page, id=name_of(page)))
        for block in blocks:
            if block.reason:
                skip = pytest.mark.skip(reason=f"{name_of(page)}: {block.reason}")
                listed.append(pytest.param(page, marks=skip, id=f"{name_of(page)}: {block.reason}"))
    return listed


@pytest.mark.parametrize("page", pages())
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    code = [block.code for block in blocks_of(page) if not block.file and not block.reason]
    (tmp_path / "script.py").write_text("\n".join([FEW_STEPS, *code]))
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
