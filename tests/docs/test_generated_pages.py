"""Every recipe and every system has a page, and what is generated there is what the code says."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from veldt.experiments.experiment import Request
from veldt.experiments.results import Results
from veldt.recipes import RECIPES, plain_recipes

DOCS = Path(__file__).parents[2] / "docs"
sys.path.append(str(DOCS))
try:
    experiments, figures, known, metrics, paper_recipes, parts, picture, recipes, settings, systems = (
        importlib.import_module(f"generate.{name}")
        for name in (
            *("experiments", "figures", "known", "metrics", "paper_recipes", "parts"),
            *("picture", "recipes", "settings", "systems"),
        )
    )
finally:
    sys.path.pop()
SYSTEM_SETTINGS = known.SYSTEM_SETTINGS
GENERATED = {
    **recipes.pages(),
    **systems.pages(),
    **settings.pages(),
    **metrics.pages(),
    **experiments.pages(),
}
each_page = pytest.mark.parametrize("page", GENERATED, ids=lambda page: f"{page.parent.name}-{page.stem}")
each_recipe = pytest.mark.parametrize("name", plain_recipes())


@pytest.mark.parametrize(("folder", "names"), [("recipes", RECIPES), ("systems", SYSTEM_SETTINGS)])
def test_each_has_a_page_and_every_page_is_of_one(folder: str, names: dict[str, object]) -> None:
    pages = {page.stem for page in (DOCS / folder).glob("*.md")} - {"README"}
    missing, left = sorted(names.keys() - pages), sorted(pages - names.keys())
    like = f"write one like the others in docs/{folder}, then run python docs/generate"
    assert not missing, f"{folder} without a page: {', '.join(missing)}; {like}"
    assert not left, f"pages in docs/{folder} of {folder} that do not exist: {', '.join(left)}"


def test_every_system_has_a_figure() -> None:
    missing = sorted(SYSTEM_SETTINGS.keys() - figures.FIGURES.keys())
    assert not missing, f"systems without a figure: {', '.join(missing)}; draw it in docs/generate/figures.py"


@each_page
def test_generated_parts_of_pages_are_up_to_date(page: Path) -> None:
    is_new = page.read_text() == parts.written(page, GENERATED[page])
    assert is_new, f"{page.relative_to(DOCS)} is not what the code says: run python docs/generate"


def test_every_experiment_has_a_section_with_what_differs_from_its_paper() -> None:
    sections = re.split(r"^### ", experiments.results(), flags=re.MULTILINE)[1:]
    assert [section.split("\n")[0] for section in sections] == list(experiments.EXPERIMENTS)
    for section in sections:
        assert f"\n\nMade by `veldt experiment {section.split(chr(10))[0]}" in section
        assert "\n\nWhat differs from the paper: " in section
        assert re.search(r"agrees? (with|for|cannot)|No results: it was not run", section), section


@pytest.mark.parametrize("page", sorted(experiments.PICTURES.glob("*.txt")), ids=lambda page: page.stem)
def test_what_an_experiment_says_of_its_paper_is_what_the_code_says(page: Path) -> None:
    nothing = experiments.EXPERIMENTS[page.stem].draw(Results(Request("small", 1), [], [], [])).says
    papers = nothing.removeprefix("Nothing is measured yet. ").partition(". Whether this agrees")[0]
    assert papers in page.read_text()


@pytest.mark.parametrize("page", paper_recipes.files(), ids=lambda page: page.stem)
def test_pages_of_paper_recipes_are_up_to_date(page: Path) -> None:
    is_new = page.read_text() == paper_recipes.files()[page]
    assert is_new, f"{page.relative_to(DOCS)} is not what the code says: run python docs/generate"


def test_the_picture_of_the_axes_is_up_to_date() -> None:
    is_new = picture.FILE.read_text() == picture.drawn()
    assert is_new, f"{picture.FILE.relative_to(DOCS)} is not what the code says: run python docs/generate"


def test_the_page_of_metrics_has_a_section_for_each_prefix() -> None:
    assert (
        set(re.findall(r"<!-- generated: (\w+) -->", metrics.PAGE.read_text()))
        == GENERATED[metrics.PAGE].keys()
    )


def test_the_reference_has_every_setting_of_every_recipe() -> None:
    listed = set(re.findall(r"^\| `--([\w-]+)` ", settings.PAGE.read_text(), re.MULTILINE))
    for recipe in plain_recipes().values():
        names = {name.replace("_", "-") for name, *_ in recipe.table(recipe.config("CartPole-v1"))}
        assert names <= listed, f"{recipe.name}: {', '.join(sorted(names - listed))}"


def test_every_section_of_shared_settings_has_a_table() -> None:
    sections = re.findall(r"^### Shared by (.+)\n((?:(?!#).*\n)+)", settings.PAGE.read_text(), re.MULTILINE)
    without = [users for users, text in sections if "| flag |" not in text]
    assert sections and not without, f"no table of the settings shared by {'; '.join(without)}"


@each_recipe
def test_a_recipes_page_has_its_parts_in_order(name: str) -> None:
    text = (DOCS / "recipes" / f"{name}.md").read_text()
    found = re.findall(r"^(#+ .+|<!-- generated: \w+ -->|```sh|<!-- end -->)$", text, re.MULTILINE)
    assert found == [
        f"# {name}",
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
    assert f"\nveldt train {name} --env " in text


@pytest.mark.parametrize("name", SYSTEM_SETTINGS)
def test_a_systems_page_has_its_parts_in_order(name: str) -> None:
    text = (DOCS / "systems" / f"{name}.md").read_text()
    headings = ["Processes", "When to choose it", "Algorithms", "Settings", "Failure and resuming"]
    found = [heading for heading in re.findall(r"^## (.+)$", text, re.MULTILINE) if heading in headings]
    assert found == headings
    assert re.search(r"^## Papers?$", text, re.MULTILINE)
    for part in GENERATED[DOCS / "systems" / f"{name}.md"]:
        assert f"<!-- generated: {part} -->" in text
