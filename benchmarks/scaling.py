"""Where each system saturates at 8 GPUs, 100 and 1,000 actors, and what binds: on paper, from costs measured here.

    python benchmarks/scaling.py                       # the tables of docs/scaling.md, from scaling_costs.json
    python benchmarks/scaling.py --write               # puts them there
    python benchmarks/scaling.py --measure             # measures the costs anew (five minutes of a core)
    python benchmarks/scaling.py --check               # runs systems, and sets what they took against the model
    python benchmarks/scaling.py --gpu-flops 2e13      # another guess of what a GPU does

The model is in `scaling_model.py`, the systems in `scaling_systems.py`, what is measured in `scaling_costs.py` and
`scaling_edges.py`, and what is assumed in `scaling_machines.py`.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scaling_machines import BREAKOUT, CARTPOLE, CORES, GPU, P100, SOURCES, WIRE, Device, costs
from scaling_model import Chain, LinearCost, line_through, predicted, saturation
from scaling_systems import Costs, apex, asynchronous, ga3c, gorila, impala, synchronous

HERE = Path(__file__).parent
COSTS, PAGE = HERE / "scaling_costs.json", HERE.parent / "docs" / "scaling.md"


def measured_table(found: dict[str, Any]) -> Iterator[str]:
    yield "| what | unit | fixed | each | at |\n| --- | --- | ---: | ---: | --- |"
    units = {"simulate": "step", "infer": "row", "update": "row", "store": "parameter", "rule": "parameter"}
    units |= {"request": "agent", "reply": "agent", "wake": "there and back"}
    units |= dict.fromkeys(("publish", "pull", "hand over", "take", "all-reduce"), "byte")
    units |= dict.fromkeys(("add", "draw", "renew"), "row")
    for name, points in found["seconds"].items():
        line, unit = line_through(points), units.get(name) or units[name.split()[0]]
        sizes = sorted({count for count, _ in points})
        at = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        yield f"| {name} | {unit} | {_seconds(line.fixed)} | {_seconds(line.each)} | {at} |"


def _seconds(value: float) -> str:
    """In a unit that suits it."""
    if value == 0:
        return "0"
    unit, of_it = next(
        (unit, of_it) for unit, of_it in (("ms", 1e-3), ("µs", 1e-6), ("ns", 0)) if value >= of_it
    )
    return f"{value / (of_it or 1e-9):.3g} {unit}"


def assumed_table() -> Iterator[str]:
    yield "| assumed | value | by |\n| --- | --- | --- |"
    for what, (value, source) in SOURCES.items():
        yield f"| {what} | {value} | {source} |"


def published_table(found: dict[str, Any]) -> Iterator[str]:
    """Their devices and cores, this model."""
    core = 1 / (35_700 / 32)  # table 3 of Stooke & Abbeel: 256 envs on 32 cores
    on_policy = replace(costs(found, "a3c", "a2c", device=P100), simulate=core)
    values = costs(found, "dqn", "dqn", device=P100)
    # Neither dueling nor double: 30 million a pass, and four passes. A bundle of Gorila without its server is the unit.
    plain = replace(values, simulate=core, update_at=LinearCost(P100.update_s, 4 * 30e6 / P100.flops))
    dqn = [chain for chain in gorila(plain, 1, 4, width=4) if chain[0].name != "parameter shards"]

    hours = 50e6 / 3600  # table 2 has those of 50 million steps
    yield "| published | steps/s | model | model / published | binds |\n| --- | ---: | ---: | ---: | --- |"
    update = values.update_at(512) + values.carry(512 * values.row_bytes)
    rows: list[tuple[str, float, Sequence[Chain] | float]] = [
        ("A2C, 1 P100, 4 + 1 cores, 16 envs (table 2)", hours / 3.8, synchronous(on_policy, 1, 4, 4)),
        ("A2C, 8 P100, 32 + 8 cores", hours / 0.59, synchronous(on_policy, 8, 32, 4)),
        ("A3C, 8 P100", hours / 0.65, asynchronous(on_policy, 8, 32, 4)),
        ("PPO, 1 P100, 8 x 256", hours / 4.4, synchronous(on_policy, 1, 4, 2, 256, 4, 4)),
        ("PPO, 8 P100, 64 x 32", hours / 1.1, synchronous(on_policy, 8, 32, 2, 32, 4, 4)),
        ("DQN-512, 1 P100", hours / 8.3, dqn),
        ("Ape-X's learner, rows a second: 19 batches of 512", 19 * 512, 512 / update),
        (
            "IMPALA's learner, a P100: 250,000 frames",
            62_500,
            impala(replace(on_policy, infer=LinearCost(0, 0)), 1, 10**6),
        ),
    ]
    for name, published, chains in rows:
        if isinstance(chains, float):
            sps, binds = chains, "update"
        else:
            sps, binds = predicted(chains).sps, predicted(chains).binds
        yield f"| {name} | {published:,.0f} | {sps:,.0f} | {sps / published:.2f} | {binds} |"


def result_table(found: dict[str, Any], device: Device) -> Iterator[str]:
    """Of every system, at every size."""
    on_policy, values = costs(found, "a3c", "a2c", device=device), costs(found, "dqn", "dqn", device=device)
    unrolls, on_cores = costs(found, "a3c", "vtrace", device=device), costs(found, "dqn", "dqn")
    seldom = functools.partial(apex, intensity=0.8)
    yield "| system | GPUs | actors | SPS | binds | busy besides | saturates at |"
    yield "| --- | ---: | ---: | ---: | --- | --- | ---: |"
    yield from _rows("synchronous, A2C", "1", functools.partial(synchronous, on_policy, 1))
    yield from _rows("", "8", functools.partial(synchronous, on_policy, 8))
    yield from _rows("asynchronous, A3C", "8", functools.partial(asynchronous, on_policy, 8))
    yield from _rows("gorila, bundles of a core", "-", functools.partial(gorila, on_cores, 0), (on_cores, 0))
    yield from _rows("gorila, bundles of a GPU", "8", functools.partial(gorila, values, 8))
    yield from _rows("ga3c", "1", functools.partial(ga3c, on_policy))
    yield from _rows("apex, DQN", "1", functools.partial(apex, values, 1), (values, 1))
    yield from _rows("", "8", functools.partial(apex, values, 8), (values, 8))
    yield from _rows("apex, each step used 0.8 times", "8", functools.partial(seldom, values, 8), (values, 8))
    yield from _rows("impala", "1", functools.partial(impala, unrolls, 1), (unrolls, 1))
    yield from _rows("", "8", functools.partial(impala, unrolls, 8), (unrolls, 8))


def _rows(
    name: str, gpus: str, system: Callable[..., Sequence[Chain]], by_messages: tuple[Costs, int] | None = None
) -> Iterator[str]:
    """A system's; those beyond a machine's cores also by messages, if it can be, of these costs and GPUs."""
    enough = f"{saturation(system):,}"
    for actors in (16, 100, 1000):
        found = {f"{actors:,}" + (" ¹" if actors > CORES else ""): system(actors)}
        if actors > CORES and by_messages is not None:
            assert isinstance(system, functools.partial)
            how = functools.partial(system.func, **{**system.keywords, "by_ray": True})
            wire = replace(by_messages[0], edges={**by_messages[0].edges, "message": WIRE})
            found[f"{actors:,}, by Ray"] = how(*by_messages, actors)
            found[f"{actors:,}, by wire"] = how(wire, by_messages[1], actors)
        for size, chains in found.items():
            said = predicted(chains)
            others = sorted(((busy, at) for at, busy in said.busy.items() if at != said.binds), reverse=True)
            besides = ", ".join(f"{at} {busy:.0%}" for busy, at in others if busy >= 0.01)
            binds = f"{said.binds} ({said.busy[said.binds]:.0%})"
            yield f"| {name} | {gpus} | {size} | {said.sps:,.0f} | {binds} | {besides} | {enough} |"
            name = enough = ""


def earlier_table(found: dict[str, Any]) -> Iterator[str]:
    """What two cores do, all processes on both, beside what docs/benchmarks.md says of two other ones."""
    yield "| docs/benchmarks.md | SPS | model, this processor | model / measured |\n| --- | ---: | ---: | ---: |"
    small, values = costs(found, "small", "vtrace small", CARTPOLE), costs(found, "dqn", "dqn")
    batches = costs(found, "a3c", "a2c")
    rows: list[tuple[str, float, float]] = []
    for width, measured in ((1, 9_823), (8, 37_717), (32, 75_985)):
        chains = impala(small, 1, 8, width, 20, max(8, width))
        rows.append((f"impala, CartPole-v1, 8 x {width}", measured, _demand_s(chains) / 2))
    rows.append(("apex-dqn, Breakout, 2 actors", 888, _demand_s(apex(values, 1, 2, shards=1)) / 2))
    sampling_s = batches.simulate + batches.infer(8) / 8  # on both cores; an update is on one
    rows.append(("a2c, Breakout, 16 x 5", 2_082, sampling_s / 2 + batches.update(80) / 80))
    for name, measured, seconds in rows:
        yield f"| {name} | {measured:,} | {1 / seconds:,.0f} | {1 / seconds / measured:.2f} |"


def _demand_s(chains: Sequence[Chain]) -> float:
    """Of a core, for a step of the run."""
    return sum(station.demand_s for chain in chains for station in chain)


def check_table(found: dict[str, Any], seconds: float) -> Iterator[str]:
    from scaling_check import core_seconds

    yield "| run | role | model, µs of a core for a step | measured | model / measured |"
    yield "| --- | --- | ---: | ---: | ---: |"
    small, small_dqn = (
        costs(found, "small", "vtrace small", CARTPOLE),
        costs(found, "small dqn", "dqn small", CARTPOLE),
    )
    unrolls, values = costs(found, "a3c", "vtrace"), costs(found, "dqn", "dqn")
    runs: list[tuple[str, str, dict[str, Any], Sequence[Chain]]] = []
    for w in (1, 8, 32):
        settings = {"actors": 8, "num_envs": 8 * w, "unrolls": max(8, w)}
        runs.append(("impala", CARTPOLE, settings, impala(small, 1, 8, w, 20, max(8, w))))
    processes = {"agent_processes": 2, "num_envs": 32, "training_rows": 160}
    runs += [
        ("impala", BREAKOUT, {"actors": 2, "num_envs": 32}, impala(unrolls, 1, 2)),
        ("apex-dqn", CARTPOLE, {"actors": 2, "num_envs": 16}, apex(small_dqn, 1, 2, 8, 128, shards=1)),
        ("apex-dqn", BREAKOUT, {"actors": 2, "num_envs": 32}, apex(values, 1, 2, shards=1)),
        (
            "ga3c",
            BREAKOUT,
            processes,
            ga3c(costs(found, "a3c", "a2c"), 2),
        ),
    ]
    for recipe, env, settings, chains in runs:
        print(f"{recipe}, {env}, {settings}", flush=True)
        spent = core_seconds(recipe, env, settings, seconds)
        roles = {
            "impala": {"actor": chains[0], "learner": chains[1]},
            "apex-dqn": {"actor": chains[0], "replay": chains[1], "learner": chains[2]},
            "ga3c": {"agent": chains[0], "model": [*chains[1], *chains[2]]},
        }
        model, processes = roles[recipe], settings.get("actors") or settings["agent_processes"]
        name = f"{recipe}, {env}, {processes} x {settings['num_envs'] // processes}"
        for role, chain in model.items():
            demand = _demand_s([chain])
            metrics = f"{1e6 * demand:,.1f} | {1e6 * spent[role]:,.1f} | {demand / spent[role]:.2f}"
            yield f"| {name} | {role} | {metrics} |"
            name = ""


def _into_page(name: str, lines: Sequence[str]) -> None:
    """Between the page's markers of this name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = PAGE.read_text().split(begin)
    PAGE.write_text(before + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", action="store_true", help="measure costs, and keep them")
    parser.add_argument("--check", action="store_true", help="run systems on this machine, and compare")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/scaling.md")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a core, for each measurement")
    parser.add_argument("--gpu-flops", type=float, default=GPU.flops)
    asked = parser.parse_args()
    if asked.measure:
        from scaling_costs import measured

        COSTS.write_text(json.dumps(measured(asked.seconds), indent=1) + "\n")
    found = json.loads(COSTS.read_text())
    tables = {
        "costs": list(measured_table(found)),
        "assumptions": list(assumed_table()),
        "published": list(published_table(found)),
        "earlier": list(earlier_table(found)),
        "results": list(result_table(found, replace(GPU, flops=asked.gpu_flops))),
    }
    if asked.check:
        tables["check"] = list(check_table(found, 6 * asked.seconds))
    for name, lines in tables.items():
        print(f"\n{name}\n", *lines, sep="\n")
        if asked.write:
            _into_page(name, lines)


if __name__ == "__main__":
    main()
