"""What is being done at this moment: small files, overwritten while a batch goes on.

under-way/batch.json                   the batch and its phase, by the driver
under-way/000000000007-ingest-1.json   how many rows of batch 7 task 1 has read
under-way/000000000007-3-0.json        how far host 3 has come in the first hop of batch 7
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.errors import CheckpointError
from anabranch.state.files import Files
from anabranch.state.sealed import seal, unseal

_DIRECTORY = "under-way"
_BATCH = f"{_DIRECTORY}/batch.json"
_OURS = re.compile(
    _DIRECTORY + r"/(batch|[0-9]{12}-([0-9]+|ingest)-[0-9]+)\.json(\.[0-9a-f]{32}\.tmp)?"
)


@dataclass(frozen=True)
class UnderWay:
    """Nothing depends on these files: one that is missing or damaged is one that says nothing."""

    files: Files

    def begin(self, batch: int, phase: str, since: int, rows: int) -> None:
        """A phase begins, of a batch that began at `since` (microseconds) and has so many rows."""
        self._write(_BATCH, {"batch": batch, "phase": phase, "since": since, "rows": rows})

    def renew(self, batch: int, host: int, hop: int, report: Mapping[str, Any]) -> None:
        """How far a host has come in a hop; overwrites what it said before."""
        self._write(f"{_DIRECTORY}/{batch:012d}-{host}-{hop}.json", report)

    def renew_read(self, batch: int, task: int, rows: int) -> None:
        """How many rows a task of ingest has read."""
        self._write(f"{_DIRECTORY}/{batch:012d}-ingest-{task}.json", {"rows": rows})

    def batch(self) -> dict[str, Any] | None:
        """What `begin` wrote last; None where nothing is under way."""
        return self._read(_BATCH)

    def reports(self, batch: int) -> list[dict[str, Any]]:
        """The last word of each host and hop that has been at this batch for a while."""
        return self._all(rf"{_DIRECTORY}/{batch:012d}-[0-9]+-[0-9]+\.json")

    def rows_read(self, batch: int) -> int:
        """The rows that tasks of ingest have told of, while they were at it."""
        return sum(read["rows"] for read in self._all(f"{_DIRECTORY}/{batch:012d}-ingest-.*json"))

    def clear(self) -> None:
        """Nothing is under way any more."""
        for name in self.files.names(_DIRECTORY):
            if _OURS.fullmatch(name):
                self.files.delete(name)

    def _all(self, pattern: str) -> list[dict[str, Any]]:
        names = [name for name in self.files.names(_DIRECTORY) if re.fullmatch(pattern, name)]
        return [found for name in names if (found := self._read(name)) is not None]

    def _write(self, path: str, content: Mapping[str, Any]) -> None:
        self.files.write(path, seal(json.dumps(content)))

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            found = json.loads(unseal(self.files.read(path), path))
        except (FileNotFoundError, CheckpointError):
            return None
        return dict(found)
