"""Writes the generated parts of the documentation into its pages.

    python docs/generate
    python docs/generate --adopt experiments/NAME-small

The text between `<!-- generated: NAME -->` and `<!-- end -->` is replaced; the rest of a page is written by hand.
The pages of paper recipes are generated whole. `--adopt` first copies the results of finished experiments, from their
directories, into docs/images/experiments.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from generate import experiments, metrics, paper_recipes, picture, recipes, settings, systems
from generate.adopt import adopt
from generate.parts import written


def main() -> None:
    arguments = argparse.ArgumentParser(description="Writes the generated parts of the documentation.")
    about = "directories of finished experiments whose results replace those on the page of experiments"
    arguments.add_argument("--adopt", nargs="+", type=Path, default=[], metavar="DIRECTORY", help=about)
    for directory in arguments.parse_args().adopt:
        adopt(directory)
    sources = (recipes, systems, settings, metrics, experiments)
    for page, parts in {page: parts for source in sources for page, parts in source.pages().items()}.items():
        if not page.exists():
            raise SystemExit(f"there is no {page}: write it first, like the other pages in its folder")
        _replace(page, written(page, parts))
    for page, text in {picture.FILE: picture.drawn(), **paper_recipes.files()}.items():
        _replace(page, text)


def _replace(file: Path, text: str) -> None:
    if not file.exists() or file.read_text() != text:
        file.write_text(text)
        print(f"{file} is new")


main()
