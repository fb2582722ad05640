"""The checkpoint directory: its identity, its segments and its manifests.

anabranch.json   the format's version, and the query that the state belongs to
segments/        immutable segments
manifests/       one a batch; the newest is the truth
spark/           the checkpoint of the Structured Streaming query that drives the batches
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.errors import CheckpointError
from anabranch.kernel.block import Block
from anabranch.state.files import Files
from anabranch.state.manifest import Manifest
from anabranch.state.segment import SegmentRef, write_segment

FORMAT = 1
IDENTITY = "anabranch.json"
MANIFESTS_KEPT = 10


@dataclass(frozen=True)
class Store:
    """Reads and writes a checkpoint. Picklable: tasks write segments through it."""

    files: Files

    @staticmethod
    def at(root: str) -> Store:
        return Store(Files(root))

    def claim(self, query: Mapping[str, Any]) -> None:
        """Make the directory this query's, or refuse: it may be another's, or not a checkpoint."""
        try:
            identity = self.files.read(IDENTITY)
        except FileNotFoundError:
            strangers = self.files.names()
            if strangers:
                raise CheckpointError(
                    f"{self.files.root} is no Anabranch checkpoint, but it is not empty either "
                    f"(it holds {strangers[0]}). Choose an empty directory"
                ) from None
            text = json.dumps({"format": FORMAT, "query": query}, indent=1)
            self.files.write(IDENTITY, text.encode(), sync=True)
            return
        self._check_identity(identity, query)

    def _check_identity(self, identity: bytes, query: Mapping[str, Any]) -> None:
        root = self.files.root
        try:
            found = json.loads(identity)
            version = found["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{root}/{IDENTITY} is not readable, so this may be no Anabranch checkpoint. "
                "Choose an empty directory"
            ) from error
        if version != FORMAT:
            raise CheckpointError(
                f"the checkpoint {root} has format {version}, and this version of Anabranch "
                f"reads format {FORMAT}. Use the version that wrote it, or a new checkpoint"
            )
        differences = [
            f"{part}: was {found['query'].get(part)}, is {value}"
            for part, value in query.items()
            if found["query"].get(part) != json.loads(json.dumps(value))
        ]
        if differences:
            raise CheckpointError(
                f"the checkpoint {root} belongs to another query. {'; '.join(differences)}. "
                "Use the query it was made by, or a new checkpoint"
            )

    def latest(self) -> Manifest | None:
        names = self.files.names("manifests")
        names = [name for name in names if name.endswith(".json")]
        return Manifest.from_json(self.files.read(names[-1])) if names else None

    def commit(self, manifest: Manifest, previous: Manifest) -> None:
        """Make a batch true, then drop what only the batches before needed."""
        path = f"manifests/{manifest.batch:012d}.json"
        self.files.write(path, manifest.to_json().encode(), sync=True)
        for stale in previous.paths() - manifest.paths():
            self.files.delete(stale)
        self.files.delete(f"manifests/{manifest.batch - MANIFESTS_KEPT:012d}.json")

    def sweep(self, manifest: Manifest) -> int:
        """Delete segments that no manifest came to name: leftovers of a batch that was cut off."""
        strangers = set(self.files.names("segments")) - manifest.paths()
        for path in strangers:
            self.files.delete(path)
        return len(strangers)

    def add(self, batch: int, stream: int, block: Block, purpose: str = "rows") -> SegmentRef:
        """Write a block under a name of its own: a repeated task overwrites nothing."""
        path = f"segments/{stream}/{batch:012d}-{purpose}-{uuid.uuid4().hex}.seg"
        return write_segment(self.files, path, stream, block)
