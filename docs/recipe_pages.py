"""Writes the generated parts of the recipes' pages (docs/recipes): figures, settings, the index.

    python docs/recipe_pages.py

The text between `<!-- generated: NAME -->` and `<!-- end -->` is replaced; the rest of a page is written by hand.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

from veldt.algorithms.registry import ALGORITHMS
from veldt.config.system_registry import SYSTEMS
from veldt.recipes import RECIPES, Recipe, cell, reasons
from veldt.setting_metadata import flag

PAGES = Path(__file__).parent / "recipes"
INDEX = PAGES / "README.md"
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

# One figure for each system, shown on the pages of its recipes.
FIGURES: Mapping[str, str] = {
    "synchronous": """
           +----------------- weights (sample, learn, sample ...) -----------------+
           v                                                                       |
        sampler ==rows==> fresh rollout, or replay buffer ==batches==> learner 0 --+
         |   ^                                                             |
 actions |   | rows        envs in two groups:                gradient, mean   (--learners N: each with
         v   |             one steps while actions                         |    its own envs and sampler)
       envs                of the other are computed             learner 1 ...
""",
    "asynchronous": """
        learner 0 --gradient--> +---------+
        learner 1 --gradient--> | chunk 0 |     learner: envs, sampler, rollout or replay buffer, updates
        ...      <--parameters- | chunk 1 |     store: parameters and the rule's state, a lock for each chunk
                                | chunk 2 |
                                +---------+
""",
    "ga3c": """
           +---- prediction requests ----> predictors --+
           |                                            |
        agents <--------- actions ----------------------+-- model (one network)
           |                                            |
           +------- rollouts ------------> trainers ----+       tuner: how many threads of each
""",
    "gorila": """
bundle 0: envs, replay buffer, learner ==gradient, version==> ring 0 --+
                                                                       +==> parameter shard 0: parameters,
bundle 1: envs, replay buffer, learner ==gradient, version==> ring 1 --+              |        rule's state
   ^                                                                                  |
   +--------------------------- part 0 (newest wins) ---------------------------------+   ... and each other shard

--actors N:
actors ==slots==> replay shards ==rows of batches==> learners ==gradient, version==> parameter shards
   ^                                                    ^                                  |
   +------------------------- parts (newest wins) ------+----------------------------------+
""",
    "apex": """
           +---------------------- weights (newest wins) ------------------------+
           v                                                                     |
        actors ==slots, first priorities==> replay shards ==rows of batches==> learner
           |                                  ^                                  |
           |                                  +--- sample requests, priorities --+
           +--------------- rate limiter (steps due, samples done) --------------+
""",
    "impala": """
           +------- weights -------+                evaluator (with --evaluator-share): plays with the newest
           v                       |                weights; its episodes are the run's score
        actors ==unrolls==> learner (V-trace, and earlier unrolls with --replay-share)
""",
}


def figure(recipe: Recipe) -> str:
    return f"```{FIGURES[recipe.system]}```"


def settings(recipe: Recipe) -> str:
    """Returns the table of the recipe's settings, with a column for each of its variants, where there are two."""
    kinds = {"Atari": _shown(recipe, "ALE/Pong-v5"), "small environments": _shown(recipe, "CartPole-v1")}
    if recipe.atari == recipe.small:
        kinds = {"value": kinds["small environments"]}
    names = list(dict.fromkeys(name for name, *_ in recipe.table(recipe.config("CartPole-v1"))))
    rows = []
    for name in names:
        found = {kind: own[name] for kind, own in kinds.items() if name in own}
        if not found:
            continue
        unit = next(unit for _, unit, _ in found.values())
        shown = f"`{flag(name)}` ({unit})" if unit and unit not in name else f"`{flag(name)}`"
        values = [found[kind][0] if kind in found else "" for kind in kinds]
        sources = [source for *_, source in found.values()]
        if len(set(sources)) == 2:
            sources[1] = f"small: {sources[1]}"
        rows.append([shown, *values, "; ".join(dict.fromkeys(sources))])
    legend = (
        f"What the recipe sets{'; an empty cell leaves the default' if len(kinds) > 1 else ''}. "
        f"`veldt recipes {recipe.name}` prints every other setting, too."
    )
    return f"{legend}\n\n{_table(['setting', *kinds, 'source'], rows)}"


def _shown(recipe: Recipe, env: str) -> dict[str, tuple[str, str, str]]:
    """Returns, by name, (value, unit, source) of each setting that the recipe has for `env`."""
    own = recipe.settings(env)
    rows = recipe.table(recipe.config(env))
    return {name: (value, unit, source) for name, value, unit, source in rows if name in own}


def recipes() -> str:
    rows = [
        [_link(recipe.name), recipe.algorithm, recipe.system, recipe.summary] for recipe in RECIPES.values()
    ]
    return _table(["recipe", "algorithm", "system", "what it is"], rows)


def matrix() -> str:
    rows = []
    for algorithm in ALGORITHMS:
        names = [cell(algorithm, system).split(", ") for system in SYSTEMS]
        rows.append([algorithm, *(", ".join(_link(name) for name in each) for each in names)])
    why = "\n".join(textwrap.fill(f"* {reason}", 120, subsequent_indent="  ") for reason in reasons())
    return f"{_table(['', *SYSTEMS], rows)}\n\nWhy the others cannot:\n\n{why}"


def _link(name: str) -> str:
    return f"[{name}]({name}.md)" if name in RECIPES else name


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def written(page: Path) -> str:
    """Returns the page's text with its generated parts up to date."""

    def part(found: re.Match[str]) -> str:
        name = found[2]
        if page == INDEX:
            text = {"recipes": recipes, "matrix": matrix}[name]()
        else:
            text = {"figure": figure, "settings": settings}[name](RECIPES[page.stem])
        return f"{found[1]}\n{text}\n\n{found[3]}"

    return _PART.sub(part, page.read_text())


def main() -> None:
    for page in (INDEX, *(PAGES / f"{name}.md" for name in RECIPES)):
        if not page.exists():
            raise SystemExit(f"there is no {page}: write it first, like docs/recipes/a2c.md")
        before, after = page.read_text(), written(page)
        if after != before:
            page.write_text(after)
            print(f"{page} is new")


if __name__ == "__main__":
    main()
