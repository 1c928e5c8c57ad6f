"""Scalars for TensorBoard, when it is installed.

PyTorch's SummaryWriter writes in a thread of its own, which prints a traceback when the disk is full; these events are
written in the caller's thread, so that a full disk is the caller's OSError like any other.
"""

import os
import socket
import time
from pathlib import Path
from typing import Any


class Board:
    """An event file in `folder`; what earlier event files say of later steps than `step` no longer holds."""

    def __init__(self, folder: Path, step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog

        folder.mkdir(exist_ok=True)
        self._path = folder / f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}"
        self._write(file_version="brain.Event:2")
        self._write(step=step, session_log=SessionLog(status=SessionLog.START))

    def add_validation(self, facts: dict[str, Any]) -> None:
        """What a line of metrics.jsonl tells of a validation."""
        for name in ("learning_rate", "train_perplexity", "valid_perplexity", "words_per_second"):
            self.add_scalar(name, facts[name], facts["step"])

    def add_scalar(self, name: str, value: float, step: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._write(step=step, summary=Summary(value=[Summary.Value(tag=name, simple_value=value)]))

    def _write(self, **event: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        with self._path.open("ab") as file:
            RecordWriter(file).write(Event(wall_time=time.time(), **event).SerializeToString())
