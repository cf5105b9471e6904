"""A hook of mkdocs: in the navigation, FOLDER/*.md stands for the pages of the folder that no other entry names."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    named = set(_pages(config["nav"]))
    config["nav"] = _filled(config["nav"], Path(config["docs_dir"]), named)
    return config


def _pages(entries: list[Any]) -> list[str]:
    """Returns the paths of all pages that the navigation names, and its patterns."""
    found: list[str] = []
    for entry in entries:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        found += _pages(value) if isinstance(value, list) else [value]
    return found


def _filled(entries: list[Any], docs: Path, named: set[str]) -> list[Any]:
    filled: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            ((title, value),) = entry.items()
            filled.append({title: _filled(value, docs, named) if isinstance(value, list) else value})
        elif entry.endswith("*.md"):
            pages = [page.relative_to(docs).as_posix() for page in docs.glob(entry)]
            filled += sorted(set(pages) - named)
        else:
            filled.append(entry)
    return filled
