"""Blocks of code in a page of the documentation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n+)?^```python(?P<title>[^\n]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A ```python block. `file`: its title, where it is a file of that name; `reason`: why it is not run, or ""."""

    code: str
    file: str
    reason: str


def blocks_of(page: Path) -> list[Block]:
    """Returns the Python blocks of a page, in order.

    A block that begins with ```python title="NAME.py" is a file for the commands and blocks of the page. A block below
    the line `<!-- not run: REASON -->` is not run.
    """
    found = []
    for block in _BLOCK.finditer(page.read_text()):
        title = re.search(r'title="([\w.]+)"', block["title"])
        found.append(Block(block["code"], title[1] if title else "", block["reason"] or ""))
    return found


def write_files(page: Path, folder: Path) -> None:
    """Writes the files of a page's blocks into `folder`."""
    for block in blocks_of(page):
        if block.file:
            (folder / block.file).write_text(block.code)
