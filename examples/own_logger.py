"""A logger of your own: it writes the return and the loss to a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import veldt

COLUMNS = ("rollout/ep_return_mean", "train/loss")


class CsvLogger(veldt.Logger):
    """Writes one line for each row of metrics in which both columns were measured."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", newline="")
        self._writer = csv.writer(self._file)
        if path.stat().st_size == 0:
            self._writer.writerow(("step", *COLUMNS))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if all(name in metrics for name in COLUMNS):
            self._writer.writerow((step, *(metrics[name] for name in COLUMNS)))
            self._file.flush()

    def close(self) -> None:
        self._file.close()


def make_logger(run: Path) -> CsvLogger:
    """Makes the logger of a run, for `--log own_logger:make_logger`; `run` is its directory."""
    return CsvLogger(run / "return.csv")


if __name__ == "__main__":
    finished = veldt.train(
        "ppo",
        env="CartPole-v1",
        steps=20_000,
        run_dir="runs/own-logger",
        loggers=[CsvLogger(Path("return.csv"))],
    )
    print(finished.summary["ep_return_mean"], Path("return.csv").read_text().splitlines()[-1])
