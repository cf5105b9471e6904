"""Writes what is generated on the pages of the recipes (docs/recipes): metrics, settings, the index.

    python docs/recipe_pages.py

What stands between `<!-- generated: NAME -->` and `<!-- end -->` is replaced; all else on a page is written by hand.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

from veldt.config.train_config import ALGORITHMS, SYSTEMS
from veldt.recipes import RECIPES, Recipe, cell, reasons
from veldt.setting_metadata import flag

PAGES = Path(__file__).parent / "recipes"
INDEX = PAGES / "README.md"
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

# One of each system, which its recipes share. (docs/architecture.md has them too, some side by side.)
FIGURES: Mapping[str, str] = {
    "synchronous": """
           +----------------- weights (sample, learn, sample ...) -----------------+
           v                                                                       |
        sampler ==rows==> fresh rollout, or replay buffer ==batches==> learner 0 --+
         |   ^                                                             |
 actions |   | rows        envs in two groups:                gradient, mean   (--learners N: each with
         v   |             one steps while actions                         |          envs and sampler)
       envs          of the other are computed                   learner 1 ...
""",
    "asynchronous": """
        unit 0 --gradient--> +---------+
        unit 1 --gradient--> | chunk 0 |        unit: envs, sampler, rollout or replay buffer, learner
        ...   <--parameters- | chunk 1 |        store: parameters and the rule's state, a lock for each chunk
                             | chunk 2 |
                             +---------+
""",
    "ga3c": """
           +------ prediction queue -----> predictors --+
           |                                            |
        agents <--------- answers ----------------------+-- model (one network)
           |                                            |
           +------- training queue ------> trainers ----+       tuner: how many of each
""",
    "gorila": """
bundle 0: envs, memory, learner ==gradient, version==> ring 0 --+
                                                                      +==> parameter shard 0: parameters, rule's state
bundle 1: envs, memory, learner ==gradient, version==> ring 1 --+              |
   ^                                                                                 |
   +-------------------------- part 0 (newest wins) ---------------------------------+   ... so each other shard

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
           |                                  +------- orders, priorities -------+
           +------------------ rate_limiter (steps due, samples done) -------------------+
""",
    "impala": """
           +------- weights -------+                evaluator (if asked for): plays by the newest weights;
           v                       |                its games are the run's score
        actors ==unrolls==> learner (V-trace, and old unrolls of its own)
""",
}


def figure(recipe: Recipe) -> str:
    return f"```{FIGURES[recipe.system]}```"


def settings(recipe: Recipe) -> str:
    """What the recipe itself sets: a column for each of its variants, where there are two."""
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
    """By name, (value, unit, source) of each setting that the recipe has for `env`."""
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
    """The page's text as it has to be, with all that is generated as it is now."""

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
