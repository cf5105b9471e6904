"""One side of a comparison: a peer's script or a veldt command is run, and its metrics are read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parent / "peers"
VENVS = Path(os.environ.get("VELDT_PEERS", Path.home() / ".cache" / "veldt-peers"))


def peer(venv: str, script: str, *arguments: str) -> dict[str, Any]:
    """The JSON line of a peer's script."""
    python = VENVS / venv / "bin" / "python"
    if not python.exists():
        sys.exit(f"{python} is missing: run benchmarks/peers/setup.sh {venv}")
    return _json([str(python), str(PEERS / script), *arguments])


def thread_counts() -> list[str]:
    """Numbers of torch threads to try: one, and one for each core."""
    return [str(count) for count in sorted({1, len(os.sched_getaffinity(0))})]


def best(venv: str, script: str, *arguments: str) -> float:
    """A peer's SPS with the better of `thread_counts`."""
    counts = thread_counts()
    return max(peer(venv, script, *arguments, "--torch-threads", count)["sps"] for count in counts)


def veldt(*arguments: str) -> dict[str, Any]:
    """The JSON object of a veldt command."""
    return _json([sys.executable, "-m", "veldt", *arguments])


def train(*arguments: str) -> dict[str, Any]:
    """The summary of a training run, with its seconds from process start (`process_seconds`) and metrics (`rows`)."""
    scratch = Path(tempfile.mkdtemp())
    run = scratch / "run"
    try:
        begin = time.perf_counter()
        command = [sys.executable, "-m", "veldt", "train", *arguments, "--run-dir", str(run)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - begin
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return json.loads((run / "summary.json").read_text()) | {"process_seconds": seconds, "rows": rows}
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def sps_of_learning(rows: list[dict[str, Any]], warmup: int) -> float:
    """SPS from the first row of metrics that has `warmup` updates behind it to the last row."""
    first = next(row for row in rows if row["train/updates"] >= warmup)
    return (rows[-1]["step"] - first["step"]) / (rows[-1]["seconds"] - first["seconds"])


def _json(command: list[str]) -> dict[str, Any]:
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(output.stdout.strip().splitlines()[-1])
