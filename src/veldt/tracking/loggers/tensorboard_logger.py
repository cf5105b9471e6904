"""Scalars and the configuration as TensorBoard events."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veldt.runs.own_files import make_directory
from veldt.runs.own_names import TENSORBOARD
from veldt.tracking.loggers.logger import Logger

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event


class TensorBoardLogger(Logger):
    """One event file in `directory/tensorboard`; the tags are the names of the metrics. It shows no videos.

    TensorBoard hides what earlier files contain after the step of `rewind`.
    """

    def __init__(self, directory: Path) -> None:
        # These modules do not import TensorFlow if it is installed; `EventFileWriter` would.
        from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._events, self._summaries = event_pb2, summary_pb2
        self._tensors, self._types = tensor_pb2, types_pb2
        folder = directory / TENSORBOARD
        make_directory(folder)
        # TensorBoard reads the files of a directory in name order, so the name begins with the time.
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._file = (folder / name).open("xb")
        self._writer = RecordWriter(self._file)
        self._write(event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2"))

    def log_config(self, config: Mapping[str, Any]) -> None:
        # Indented, it is shown as a block of code.
        text = "\n".join(f"    {line}" for line in json.dumps(config, indent=2).splitlines())
        plugin = self._summaries.SummaryMetadata.PluginData(plugin_name="text")
        event = self._events.Event(wall_time=time.time())
        event.summary.value.add(
            tag="config",
            metadata=self._summaries.SummaryMetadata(plugin_data=plugin),
            tensor=self._tensors.TensorProto(dtype=self._types.DT_STRING, string_val=[text.encode()]),
        )
        self._write(event)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        event = self._events.Event(wall_time=time.time(), step=step)
        for tag, value in metrics.items():
            event.summary.value.add(tag=tag, simple_value=value)
        self._write(event)

    def rewind(self, step: int) -> None:
        start = self._events.SessionLog(status=self._events.SessionLog.START)
        self._write(self._events.Event(wall_time=time.time(), step=step + 1, session_log=start))

    def close(self) -> None:
        self._file.close()

    def _write(self, event: Event) -> None:
        self._writer.write(event.SerializeToString())
        self._file.flush()
