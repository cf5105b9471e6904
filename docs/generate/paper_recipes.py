"""The pages of paper recipes (docs/recipes), generated whole: how each differs from the recipe that it is made of."""

from __future__ import annotations

from pathlib import Path

from generate.parts import table
from generate.recipes import PAGES, flag_and_unit, link
from veldt.recipes import RECIPES, Recipe, differences

_PAGE = """# {name}

{summary}.

```sh
veldt train {name} --env ALE/Breakout-v5
veldt recipes {name}
```

{differs}

This is a [paper recipe](README.md#paper-recipes): it has values for Atari games alone, and refuses any other
environment. Where the paper says nothing, the value is {base}'s. The second command prints all values with
their sources.
"""


def _written(recipe: Recipe) -> str:
    base = link(recipe.base.name)
    rows = [
        [flag_and_unit(name, unit), value, other, source]
        for name, value, other, unit, source in differences(recipe)
    ]
    differs = f"It has the values of {base} for Atari, which are the paper's."
    if rows:
        differs = f"It has the values of {base} for Atari, except these:\n\n"
        differs += table(["setting", recipe.name, recipe.base.name, "source"], rows)
    return _PAGE.format(name=recipe.name, summary=recipe.summary, differs=differs, base=base)


def files() -> dict[Path, str]:
    """Returns the text of each page."""
    return {PAGES / f"{name}.md": _written(recipe) for name, recipe in RECIPES.items() if recipe.base}
