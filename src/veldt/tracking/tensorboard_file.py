"""Scalars for TensorBoard, written on a background thread.

Importing tensorboard takes up to a second and its checksums are computed in Python, so neither happens on the training
thread. The thread is a daemon fed by a bounded queue: when the queue is full, rows are dropped and counted; it never
blocks.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from veldt.runs.own_files import make_directory

_QUEUED_ROWS = 1024
_Row = tuple[float, int, Mapping[str, float]]  # time, step, scalars


class EventFile:
    """One TensorBoard event file in `directory`.

    With `purge_step`, TensorBoard hides what earlier files contain at that step and later. `problem` is a message after
    a failure (tensorboard not installed, disk full), else "".
    """

    def __init__(self, directory: Path, purge_step: int | None = None) -> None:
        self.problem = ""
        self._directory, self._purge_step = directory, purge_step
        self._dropped = 0
        self._ended = False
        self._rows: queue.Queue[_Row | None] = queue.Queue(_QUEUED_ROWS)
        self._thread = threading.Thread(target=self._write, name="tensorboard", daemon=True)
        self._thread.start()

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Queues the scalars of one step; returns at once."""
        try:
            self._rows.put_nowait((time.time(), step, scalars))
        except queue.Full:
            self._dropped += 1
            self.problem = f"TensorBoard could not keep up: {self._dropped} rows are in metrics.jsonl only"

    def close(self, deadline: float = 5.0) -> None:
        """Writes what is queued and closes the file; gives up after `deadline` seconds."""
        end = time.monotonic() + deadline
        with contextlib.suppress(queue.Full):
            self._rows.put(None, timeout=deadline)
        self._thread.join(max(0.0, end - time.monotonic()))
        if self._thread.is_alive():
            self.problem = f"TensorBoard's events were not all written within {deadline:.0f} s"

    def _write(self) -> None:
        try:
            self._write_rows()
            return
        except ImportError:
            self.problem = "tensorboard is not installed: the metrics are in metrics.jsonl only"
        except Exception as error:
            # A full disk, or an incompatible protobuf: training continues without TensorBoard.
            self.problem = f"TensorBoard's events cannot be written to {self._directory}: {error}"
        while not self._ended:
            self._next()  # Keeps the queue from filling up with rows that will not be written.

    def _next(self) -> _Row | None:
        row = self._rows.get()
        self._ended = row is None
        return row

    def _write_rows(self) -> None:
        # These two modules do not import TensorFlow if it is installed; `EventFileWriter` would.
        from tensorboard.compat.proto import event_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        make_directory(self._directory)
        # TensorBoard reads the files of a directory in name order, so the name begins with the time.
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        with (self._directory / name).open("xb") as file:
            writer = RecordWriter(file)
            start = {"wall_time": time.time(), "file_version": "brain.Event:2"}
            writer.write(event_pb2.Event(**start).SerializeToString())
            if self._purge_step is not None:
                began = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
                event = event_pb2.Event(wall_time=time.time(), step=self._purge_step, session_log=began)
                writer.write(event.SerializeToString())
            while (row := self._next()) is not None:
                wall_time, step, scalars = row
                event = event_pb2.Event(wall_time=wall_time, step=step)
                for tag, value in scalars.items():
                    event.summary.value.add(tag=tag, simple_value=value)
                writer.write(event.SerializeToString())
                if self._rows.empty():
                    file.flush()
