"""The checkpoint directory: its identity, its segments and its manifests.

anabranch.json   the format's version, and the query that the state belongs to
segments/        immutable segments
manifests/       one a batch; the newest is the truth
events/          the decisions of each batch, as JSON lines (`eventlog.py`)
reports/         what the hosts counted in the batch under way, left when they have finished
under-way/       how far the batch under way has come, overwritten while it goes on
spark/           the checkpoint of the Structured Streaming query that drives the batches
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.errors import CheckpointError
from anabranch.kernel.block import Block
from anabranch.state.durable import sync_all
from anabranch.state.files import Files
from anabranch.state.identity import claim
from anabranch.state.manifest import Manifest
from anabranch.state.sealed import seal, unseal
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
        """The newest manifest. Raises CheckpointError unless it is as it was written."""
        names = [name for name in self.files.names("manifests") if _MANIFEST.fullmatch(name)]
        if not names:
            return None
        name = f"manifest {names[-1]} under {self.files.root}"
        text = unseal(self.files.read(names[-1]), name)
        try:
            manifest = Manifest.from_json(text)
            wrong = _contradiction(manifest, names[-1])
            if wrong is None:
                return manifest
        except (ValueError, KeyError, TypeError) as error:
            wrong = f"it does not read as a manifest ({error!r:.100})"
        raise CheckpointError(
            f"{name} is damaged: {wrong}. Restore the file from a backup, or start from a new "
            "checkpoint"
        )

    def commit(self, manifest: Manifest, previous: Manifest) -> None:
        """Make a batch true, then drop what only the batches before needed.

        Everything that the manifest relies on is on the disk before it: segments and results were
        synchronized when they were written.
        """
        self._sync_driver(manifest.batch)
        self.files.write(_manifest(manifest.batch), seal(manifest.to_json()), sync=True)
        for stale in previous.paths() - manifest.paths():
            self.files.delete(stale)
        self.files.delete(_manifest(manifest.batch - MANIFESTS_KEPT))

    def _sync_driver(self, batch: int) -> None:
        """Synchronize what Spark wrote for a batch, which it leaves to the operating system.

        Otherwise a loss of power could leave our half of the checkpoint newer than Spark's.
        """
        root = self.files.local_root()
        if root is None or not (root / "spark").exists():
            return
        spark = root / "spark"
        logs = [spark / "offsets", *spark.glob("sources/*")]
        entries = [spark / "commits" / str(batch - 1), *(log / str(batch) for log in logs)]
        entries += [entry.with_name(f"{entry.name}.compact") for entry in entries]
        if batch == 0:
            entries.append(spark / "metadata")
        there = [entry for entry in entries if entry.is_file()]
        directories = {entry.parent for entry in there}
        if batch == 0:
            directories |= {root, spark, *(directory.parent for directory in directories)}
        sync_all([*there, *directories])

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

    def sweep(self, manifest: Manifest | None) -> int:
        """Delete what no manifest came to name: leftovers of a batch or commit that was cut off.

        Only files that have a name of ours: what somebody else put here stays.
        """
        live = frozenset[str]() if manifest is None else manifest.paths()
        leftovers = [
            name
            for directory, ours in (
                ("segments", _SEGMENT),
                ("manifests", _CUT_OFF),
                ("reports", _REPORT),
            )
            for name in self.files.names(directory)
            if ours.fullmatch(name) and name not in live
        ]
        for path in leftovers:
            self.files.delete(path)
        return len(leftovers)

    def add(self, batch: int, stream: int, block: Block, purpose: str = "rows") -> SegmentRef:
        """Write a block under a name of its own: a repeated task overwrites nothing."""
        return self._write(batch, stream, block, purpose, uuid.uuid4().hex)

    def add_merged(
        self, batch: int, stream: int, block: Block, sources: Sequence[SegmentRef]
    ) -> SegmentRef:
        """Write what segments were merged into. A task that is repeated writes the same file.

        Join tasks run as often as a sink evaluates its frame; names of their own would pile up.
        """
        paths = "\n".join(ref.path for ref in sources)
        name = hashlib.sha256(paths.encode()).hexdigest()[:32]
        return self._write(batch, stream, block, "merged", name)

    def _write(self, batch: int, stream: int, block: Block, purpose: str, name: str) -> SegmentRef:
        path = f"segments/{stream}/{batch:012d}-{purpose}-{name}.seg"
        return write_segment(self.files, path, stream, block)


_CUT = r"(\.[0-9a-f]{32}\.tmp)?"
"""The ending of a file that was not written to its end."""
_MANIFEST = re.compile(r"manifests/[0-9]{12}\.json")
_CUT_OFF = re.compile(r"manifests/[0-9]{12}\.json\.[0-9a-f]{32}\.tmp")
_SEGMENT = re.compile(r"segments/([0-9]+)/[0-9]{12}-[a-z]+-[0-9a-f]{32}\.seg" + _CUT)
_REPORT = re.compile(r"reports/[0-9]{12}-[0-9a-z-]+\.json" + _CUT)


def _manifest(batch: int) -> str:
    return f"manifests/{batch:012d}.json"


def _reports(batch: int) -> str:
    return f"reports/{batch:012d}-"


def _contradiction(manifest: Manifest, name: str) -> str | None:
    """What a manifest says that cannot be; its checksum does not speak of where it lies."""
    if _manifest(manifest.batch) != name:
        return f"it is the manifest of batch {manifest.batch}"
    live = [(stream, ref) for stream, refs in enumerate(manifest.segments) for ref in refs]
    for stream, ref in [*live, *((ref.stream, ref) for ref in manifest.dead)]:
        path = _SEGMENT.fullmatch(ref.path)
        if path is None or path[2] or {int(path[1]), ref.stream} != {stream}:
            return f"{ref.path} is not the name of a segment of stream {stream}"
    if len(manifest.paths()) != len(manifest.named()):
        return "it names a segment twice"
    return None
