"""The event log: every decision of a run, as JSON lines, in a few files of bounded size.

Object stores cannot append to a file, so the newest file is written again with each batch that has
something to tell; it is small, and when it is full a new one is begun and the oldest goes.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.state.files import Files

FILE_BYTES = 128 << 10
FILES_KEPT = 16
"""Some ten thousand decisions; older ones are forgotten."""

_NAME = re.compile(r"events/[0-9]{12}\.jsonl")


class EventLog:
    """Written by the run that has the checkpoint. A batch that is repeated is logged once."""

    def __init__(self, files: Files, committed: int) -> None:
        self._files = files
        names = _names(files)
        self._name = names[-1] if names else ""
        lines = _lines(files, self._name) if names else []
        # What was logged of a batch that was then not committed will be logged again.
        self._lines = [line for line in lines if json.loads(line)["batch"] <= committed]
        self._bytes = sum(map(len, self._lines))

    def add(self, batch: int, events: Sequence[Mapping[str, Any]]) -> None:
        """Add the decisions of a batch; the oldest file goes where there are too many."""
        if not events:
            return
        if not self._name or self._bytes >= FILE_BYTES:
            self._name, self._lines, self._bytes = f"events/{batch:012d}.jsonl", [], 0
            for old in _names(self._files)[: 1 - FILES_KEPT]:
                self._files.delete(old)
        added = [json.dumps({"batch": batch, **event}) for event in events]
        self._lines += added
        self._bytes += sum(map(len, added))
        self._files.write(self._name, "".join(f"{line}\n" for line in self._lines).encode())


def read_events(files: Files) -> list[dict[str, Any]]:
    """All decisions that are kept, the oldest first."""
    return [json.loads(line) for name in _names(files) for line in _lines(files, name)]


def _names(files: Files) -> list[str]:
    return [name for name in files.names("events") if _NAME.fullmatch(name)]


def _lines(files: Files, name: str) -> list[str]:
    """The lines of a file that are decisions: the log is told, nothing is decided by it."""
    kept = []
    for line in files.read(name).decode(errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict) and isinstance(event.get("batch"), int):
                kept.append(line)
    return kept
