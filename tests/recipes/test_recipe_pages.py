"""Every recipe has a page, whose figure and settings are the recipe's, and whose links lead somewhere."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from veldt.config.system_registry import SYSTEMS
from veldt.recipes import RECIPES

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "recipe_pages.py"))
INDEX = DOCS / "recipes" / "README.md"
THERE = {page.stem for page in (DOCS / "recipes").glob("*.md") if page != INDEX}
OF_RECIPES = [DOCS / "recipes" / f"{name}.md" for name in RECIPES if name in THERE]
each_page = pytest.mark.parametrize("page", [INDEX, *OF_RECIPES], ids=lambda page: page.stem)
each_recipes_page = pytest.mark.parametrize("page", OF_RECIPES, ids=lambda page: page.stem)


def slugs(page: Path) -> set[str]:
    """What GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_recipe_has_a_page_and_every_page_a_recipe() -> None:
    missing, left = sorted(RECIPES.keys() - THERE), sorted(THERE - RECIPES.keys())
    like = "write one like docs/recipes/a2c.md, then run python docs/recipe_pages.py"
    assert not missing, f"recipes without a page in docs/recipes: {', '.join(missing)}; {like}"
    assert not left, (
        f"pages in docs/recipes of recipes that are not there: {', '.join(left)}; remove or rename them"
    )


def test_every_system_has_a_figure() -> None:
    missing = [system for system in SYSTEMS if system not in SCRIPT["FIGURES"]]
    assert not missing, f"systems without a figure: {', '.join(missing)}; draw it in docs/recipe_pages.py"


@each_page
def test_what_is_generated_is_what_the_recipes_say(page: Path) -> None:
    is_new = page.read_text() == SCRIPT["written"](page)
    assert is_new, f"docs/recipes/{page.name} is not what its recipe says: run python docs/recipe_pages.py"


@each_recipes_page
def test_a_page_has_its_parts_in_order(page: Path) -> None:
    found = re.findall(
        r"^(#+ .+|<!-- generated: \w+ -->|```sh|<!-- end -->)$", page.read_text(), re.MULTILINE
    )
    assert found == [
        f"# {page.stem}",
        "```sh",
        "## Roles",
        "<!-- generated: figure -->",
        "<!-- end -->",
        "## Source",
        "## Settings",
        "<!-- generated: settings -->",
        "<!-- end -->",
        "## Measured",
    ]
    assert f"\nveldt train {page.stem} --env " in page.read_text()


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, section = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name} links to {target}, and there is no {path}"
        assert not section or section in slugs(linked), (
            f"{page.name}: there is no section {section} in {path}"
        )
