"""The checkpoint directory: its identity, its segments and its manifests.

anabranch.json   the format's version, and the query that the state belongs to
segments/        immutable segments
manifests/       one a batch; the newest is the truth
events/          the decisions of each batch, as JSON lines
reports/         what the hosts counted in the batch under way
spark/           the checkpoint of the Structured Streaming query that drives the batches
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.errors import CheckpointError
from anabranch.kernel.block import Block
from anabranch.state.files import Files
from anabranch.state.identity import claim
from anabranch.state.manifest import NO_BATCH, Manifest
from anabranch.state.segment import SegmentRef, write_segment

MANIFESTS_KEPT = 10


@dataclass(frozen=True)
class Store:
    """Reads and writes a checkpoint. Picklable: tasks write segments through it."""

    files: Files

    @staticmethod
    def at(root: str) -> Store:
        return Store(Files(root))

    def claim(self, query: Mapping[str, Any]) -> str:
        """Make the directory this query's, or refuse; the checkpoint's id."""
        return claim(self.files, query)

    def offsets_digest(self, batch: int) -> str:
        """What tells the rows of a batch from those of any other: Spark's file of its offsets.

        Empty where there is no such file, as for a run over static inputs.
        """
        try:
            return hashlib.sha256(self.files.read(f"spark/offsets/{batch}")).hexdigest()
        except FileNotFoundError:
            return ""

    def latest(self) -> Manifest | None:
        names = self.files.names("manifests")
        names = [name for name in names if name.endswith(".json")]
        if not names:
            return None
        try:
            return Manifest.from_json(self.files.read(names[-1]))
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"manifest {names[-1]} under {self.files.root} is damaged ({error}). "
                "Restore the file from a backup, or start from a new checkpoint"
            ) from error

    def check_driver(self, manifest: Manifest) -> None:
        """Refuse state whose Spark checkpoint is gone: its batch ids would begin again at 0."""
        if manifest.batch > NO_BATCH and not self.files.names("spark/offsets"):
            raise CheckpointError(
                f"the checkpoint {self.files.root} has committed batch {manifest.batch}, but "
                "Spark's part of it, below spark/, is missing. Restore it, or start from a new "
                "checkpoint"
            )

    def commit(self, manifest: Manifest, previous: Manifest) -> None:
        """Make a batch true, then drop what only the batches before needed."""
        path = f"manifests/{manifest.batch:012d}.json"
        self.files.write(path, manifest.to_json().encode(), sync=True)
        for stale in previous.paths() - manifest.paths():
            self.files.delete(stale)
        self.files.delete(f"manifests/{manifest.batch - MANIFESTS_KEPT:012d}.json")

    def report(self, batch: int, name: str, text: str) -> None:
        """Leave what a host counted; a repeated task, which counts the same, overwrites it."""
        self.files.write(f"{_reports(batch)}{name}.json", text.encode())

    def take_reports(self, batch: int) -> list[str]:
        """Read the reports of a batch and remove them; hosts that came to no end have left none."""
        texts = []
        for path in self.files.names("reports"):
            if path.startswith(_reports(batch)) and path.endswith(".json"):
                texts.append(self.files.read(path).decode())
                self.files.delete(path)
        return texts

    def log(self, batch: int, events: Sequence[Mapping[str, Any]]) -> None:
        """Add the decisions of a batch to the event log: JSON lines, a file a batch."""
        if events:
            lines = "".join(f"{json.dumps(event)}\n" for event in events)
            self.files.write(f"events/{batch:012d}.jsonl", lines.encode())

    def events(self) -> list[dict[str, Any]]:
        """All decisions that were logged, the oldest first."""
        names = [name for name in self.files.names("events") if name.endswith(".jsonl")]
        return [json.loads(line) for name in names for line in self.files.read(name).splitlines()]

    def sweep(self, manifest: Manifest) -> int:
        """Delete what no manifest came to name: leftovers of a batch or commit that was cut off."""
        strangers = set(self.files.names("segments")) - manifest.paths()
        strangers.update(name for name in self.files.names("manifests") if name.endswith(".tmp"))
        strangers.update(self.files.names("reports"))
        for path in strangers:
            self.files.delete(path)
        return len(strangers)

    def add(self, batch: int, stream: int, block: Block, purpose: str = "rows") -> SegmentRef:
        """Write a block under a name of its own: a repeated task overwrites nothing."""
        path = f"segments/{stream}/{batch:012d}-{purpose}-{uuid.uuid4().hex}.seg"
        return write_segment(self.files, path, stream, block)


def _reports(batch: int) -> str:
    return f"reports/{batch:012d}-"
