"""The documentation's site builds without a warning, and its pages load nothing from the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import veldt

ROOT = Path(__file__).parents[2]
# What a browser loads by itself: scripts, images, styles and fonts. A link that a reader clicks is not among these.
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(?:https?:)?//[^\s\"'>]+"
    r"|<link[^>]*\shref=[\"']?(?:https?:)?//[^\s\"'>]+"
)
IMPORTED = re.compile(r"(?:url\(|@import )[\"']?(?:https?:)?//[^\s\"')]+")


def test_the_site_builds_and_needs_no_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    found = [
        f"{file.relative_to(tmp_path)}: {match}"
        for pattern, ending in ((LOADED, "*.html"), (IMPORTED, "*.css"))
        for file in tmp_path.rglob(ending)
        for match in pattern.findall(file.read_text())
    ]
    assert not found
    # mkdocs-material loads Mermaid from a server, on pages that have such a diagram.
    assert not any('class="mermaid"' in page.read_text() for page in tmp_path.rglob("*.html"))
    api = (tmp_path / "reference" / "api.html").read_text()
    missing = [name for name in veldt.__all__ if f'id="veldt.{name}"' not in api]
    assert not missing, f"not in docs/reference/api.md: {', '.join(missing)}"
