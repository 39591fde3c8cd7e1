"""metrics.jsonl: one JSON object a line, each whole, and no more of them than the run has come to."""

import json
import math
import os
from pathlib import Path

from tformer.errors import CheckpointError
from tformer.progress import say


class MetricsFile:
    """Adds lines, and cuts off those of steps that are done again.

    What the disk does not take waits in memory, and goes with what comes next: a full disk costs a run no line.

    Args:
        path: a file that is there is written anew, unless `go_back` says how much of it counts; None: nowhere.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._size = 0  # bytes that are known to be written
        self._waiting = b""
        self._refused = False

    def go_back(self, size: int) -> None:
        """Cut off what lies past `size` bytes: lines of steps that will be done again, and a torn one."""
        if self._path is None:
            return
        there = self._path.stat().st_size if self._path.exists() else 0
        if there < size:
            say(f"warning: {self._path}: expected {size} bytes, found {there}; lines of earlier steps are lost")
        self._size = min(size, there)
        self._write()

    def add(self, **fields: object) -> dict[str, object]:
        """Add a line, and give what it says; a number that is not finite is null, as JSON has no infinity."""
        known = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fields.items()
        }
        self._waiting += json.dumps(known).encode() + b"\n"
        return known

    def write(self) -> None:
        """Write what was added; say it once where the disk refuses, and keep it."""
        try:
            self._write()
            self._refused = False
        except OSError as error:
            if not self._refused:
                say(f"warning: {self._path}: cannot be written ({error.strerror}); its lines wait until it can")
            self._refused = True

    def flush(self) -> int:
        """Write what was added, see it onto the disk, and give the size of all.

        Raises:
            CheckpointError: the disk refuses.
        """
        try:
            self._write(to_disk=True)
        except OSError as error:
            raise CheckpointError(
                f"{self._path}: cannot be written ({error.strerror}); see whether the disk is full or read-only"
            ) from error
        return self._size

    def _write(self, to_disk: bool = False) -> None:
        if self._path is None:
            self._waiting = b""
            return
        with self._path.open("ab", buffering=0) as file:
            self._size = min(self._size, file.tell())
            file.truncate(self._size)  # what a refused write left half done
            left = memoryview(self._waiting)
            while left:
                left = left[file.write(left) :]
            if to_disk:
                os.fsync(file.fileno())
        self._size += len(self._waiting)
        self._waiting = b""
