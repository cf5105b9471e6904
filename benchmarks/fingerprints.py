"""A digest of what each recipe has learned after a short run: the same before and after a change of the code alone.

    python benchmarks/fingerprints.py [--recipes dqn ppo] > before.txt

One line a run: recipe, environment, seed, and the first digits of the SHA-256 of the weights, of the optimiser's state
and of the episode log (seeds, lengths, scores, actions). Runs take place in this process, with one thread and in fp32.
Digests are comparable on one machine only: another processor adds numbers up in another order.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from pathlib import Path

from safetensors.numpy import load_file

import veldt

DISCRETE = ("a2c", "ppo", "dqn", "c51", "rainbow")
RUNS = [(recipe, env) for recipe in DISCRETE for env in ("CartPole-v1", "ALE/Breakout-v5")] + [
    (recipe, "Pendulum-v1") for recipe in ("ddpg", "ppo")
]
SETTINGS = {"steps": 3000, "threads": 1, "precision": "fp32", "env_backend": "in-process", "device": "cpu"}


def tensors(path: Path) -> str:
    """A digest of a file's arrays, whatever their names."""
    arrays = (array.dtype.str.encode() + array.tobytes() for array in load_file(path).values())
    return hashlib.sha256(b"".join(sorted(hashlib.sha256(each).digest() for each in arrays))).hexdigest()[:12]


def episodes(run: Path) -> str:
    """A digest of the episode log."""
    rows = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    known = [[row["seed"], row["length"], row["score"]] for row in rows]
    return hashlib.sha256(json.dumps(known).encode() + (run / "actions.bin").read_bytes()).hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipes", nargs="*")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2])
    args = parser.parse_args()
    for recipe, env in RUNS:
        if args.recipes and recipe not in args.recipes:
            continue
        for seed in args.seeds:
            with tempfile.TemporaryDirectory() as scratch:
                run = veldt.train(
                    recipe, env=env, seed=seed, quiet=True, run_dir=Path(scratch) / "run", **SETTINGS
                )
                last = max((run.path / "checkpoints").glob("step-*"))
                digests = [tensors(last / f"{name}.safetensors") for name in ("weights", "optimiser")]
                print(f"{recipe:8} {env:16} {seed}", *digests, episodes(run.path), flush=True)


if __name__ == "__main__":
    main()
