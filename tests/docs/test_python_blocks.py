"""The Python in the documentation runs: the blocks of a page in order, as one script, with few training steps."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from documentation import PAGES, ROOT, blocks_of, write_files
from scripts import run_script
from veldt import api


def limited(function: Any, most: int) -> Any:
    """Limits the steps of training, and hides its progress; everything else is as the page says."""

    @functools.wraps(function)
    def call(*args: Any, steps: int = most, **settings: Any) -> Any:
        return function(*args, steps=min(steps, most), **settings | {"quiet": True})

    return call


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
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(page, tmp_path)
    code = [block.code for block in blocks_of(page) if not block.file and not block.reason]
    script = tmp_path / "script.py"
    script.write_text("\n".join(code))
    monkeypatch.setattr(api, "train", limited(api.train, 2_000))
    monkeypatch.setattr(api, "resume", limited(api.resume, 3_000))
    run_script(script, monkeypatch)
