"""A directory of Parquet batches: whose it is, which batches are whole, how one becomes visible.

_anabranch/owner.json     the checkpoints that wrote here, in their order; the last owns it
_anabranch/lock           held by the operating system while a run writes
batch=N/                  one batch: the files that Spark wrote, and
batch=N/_anabranch.json   its seal: whose batch it is, and the digest of its offsets
../.NAME.writing-OWNER/   the batch under way

A batch is written beside the directory, since globs look into hidden folders too, and comes in by
one rename, its seal with it. Readers skip names with a leading underscore.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from anabranch.errors import CheckpointError
from anabranch.state.durable import exchange, make_directory, sync, sync_tree
from anabranch.state.files import Files
from anabranch.state.place import Place
from anabranch.state.sealed import seal, unseal

OWN = "_anabranch"
OWNERS = f"{OWN}/owner.json"
LOCK = f"{OWN}/lock"
SEAL = "_anabranch.json"

_BATCH = re.compile(r"batch=(0|[1-9][0-9]*)")
_HARMLESS = re.compile(r"_anabranch|_SUCCESS|\..*")
"""Names beside the batches that plain readers of the directory skip."""


@dataclass(frozen=True)
class Owner:
    """A checkpoint that writes or wrote here, and the directory number of its batch 0."""

    id: str
    first: int
    role: str = "results"
    """What it delivers: results, or rows that were late or set aside."""


@dataclass(frozen=True)
class Output:
    """A directory that is written to, for its owner; an empty id is a writer without checkpoint."""

    place: Place
    owner: Owner = Owner("", 0)

    @property
    def files(self) -> Files:
        if self.place.local is None and "://" not in self.place.spark:
            raise ValueError("the URI has no host, which may be in Spark's configuration")
        return Files(str(self.place.local or self.place.spark))

    def name(self, batch: int) -> str:
        return f"batch={self.owner.first + batch}"

    def holds(self, batch: int, digest: str) -> bool:
        """Whether a batch is here, whole. One that has other rows is refused."""
        name = self.name(batch)
        found = self._read_seal(batch)
        if found is None:
            if self.place.local is None or not _filled(self.place.local / name):
                return False  # a remote batch has no seal until it is whole
            raise CheckpointError(
                f"{self.place.spark}/{name} has no {SEAL}, so it is not as it was written. Move "
                "it away, and the batch is written again"
            )
        if found != self._seal(batch, digest):
            raise CheckpointError(
                f"{self.place.spark}/{name} holds other rows than batch {batch} has now: it was "
                "written from other offsets, or for another checkpoint. Restore the checkpoint "
                "that goes with this output, or choose another output"
            )
        return True

    def owner_of(self, batch: int) -> str | None:
        """Whose batch this is, as its seal says; None where it has none."""
        found = self._read_seal(batch)
        return None if found is None else str(found["owner"])

    def begin(self, batch: int) -> Path:
        """A place beside the directory to write a batch to."""
        root = self._writing
        if not self.owner.id:  # those of an owner are removed when it starts again
            for leftover in root.glob(f"{batch}-*"):
                shutil.rmtree(leftover, ignore_errors=True)
        root.mkdir(parents=True, exist_ok=True)
        return root / f"{batch}-{uuid.uuid4().hex}"

    def publish(self, written: Path, batch: int, digest: str) -> None:
        """Make a batch visible, and safe from a loss of power. One that is there is replaced."""
        assert self.place.local is not None
        if not any(written.glob("*.parquet")):
            raise CheckpointError(
                f"Spark wrote batch {batch} of {self.place.spark} where this process does not see "
                "it. Choose a directory that driver and workers share, and write its scheme if it "
                "is not on a mounted file system, like hdfs://"
            )
        (written / SEAL).write_bytes(seal(json.dumps(self._seal(batch, digest))))
        sync_tree(written)
        target = self.place.local / self.name(batch)
        make_directory(target.parent)
        if _filled(target):
            exchange(written, target)
        else:
            written.rename(target)
        sync(target.parent)
        self.discard(written)

    def seal_remote(self, batch: int, digest: str) -> None:
        """Mark a batch whole, where there is no rename that would."""
        content = seal(json.dumps(self._seal(batch, digest)))
        self.files.write(f"{self.name(batch)}/{SEAL}", content)

    def discard(self, written: Path) -> None:
        """Give up a batch that could not be written; it may be what fills the disk."""
        shutil.rmtree(written, ignore_errors=True)
        self._tidy()

    def clear(self) -> None:
        """Remove what a run of this owner left unfinished."""
        if self.place.local is not None:
            shutil.rmtree(self._writing, ignore_errors=True)
            for path in (self.place.local / OWN).iterdir():
                if re.fullmatch(r"owner\.json\.[0-9a-f]{32}\.tmp", path.name):
                    path.unlink()

    def check_rename(self) -> None:
        """Refuse a directory into which nothing can be renamed from beside it."""
        assert self.place.local is not None
        name = f"probe-{uuid.uuid4().hex}"
        try:
            (self._writing / name).mkdir(parents=True)
            (self._writing / name).rename(self.place.local / OWN / name)
            (self.place.local / OWN / name).rmdir()
        except OSError as error:
            raise CheckpointError(
                f"batches of {self.place.spark} are written beside it, in {self._writing}, and "
                f"renamed into it, which fails ({error.strerror}). Both must be writable and on "
                f"one file system; a folder inside may do, like {self.place.spark}/results"
            ) from error
        finally:
            self.discard(self._writing / name)

    def _read_seal(self, batch: int) -> dict[str, str | int] | None:
        name = f"{self.name(batch)}/{SEAL}"
        try:
            text = unseal(self.files.read(name), f"{self.place.spark}/{name}")
        except FileNotFoundError:
            return None
        found: dict[str, str | int] = json.loads(text)
        return found

    def _seal(self, batch: int, digest: str) -> dict[str, str | int]:
        return {"owner": self.owner.id, "batch": batch, "digest": digest}

    @property
    def _writing(self) -> Path:
        local = self.place.local
        assert local is not None
        return local.with_name(
            f".{local.name}.writing{'-' if self.owner.id else ''}{self.owner.id}"
        )

    def _tidy(self) -> None:
        with contextlib.suppress(OSError):  # another batch is under way, or left over
            self._writing.rmdir()


def owners_of(files: Files) -> tuple[Owner, ...]:
    """The checkpoints that wrote into a directory, oldest first."""
    try:
        text = unseal(files.read(OWNERS), f"{files.root}/{OWNERS}")
    except FileNotFoundError:
        return ()
    try:
        return tuple(
            Owner(found["id"], found["first"], found["role"]) for found in json.loads(text)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{files.root}/{OWNERS} does not name the checkpoints that wrote here: it is another "
            "file. Restore it from a backup, or choose another output"
        ) from error


def record_owners(files: Files, owners: Sequence[Owner]) -> None:
    """Write down who wrote here."""
    text = json.dumps([asdict(owner) for owner in owners])
    files.write(OWNERS, seal(text), sync=True)


def survey(files: Files) -> tuple[frozenset[int], tuple[str, ...]]:
    """The numbers of the batches in a directory, and the names that have no place there."""
    batches, strangers = set(), []
    for name in files.children():
        found = _BATCH.fullmatch(name)
        if found is not None:
            batches.add(int(found[1]))
        elif not _HARMLESS.fullmatch(name):
            strangers.append(name)
    return frozenset(batches), tuple(strangers)


def _filled(directory: Path) -> bool:
    return directory.exists() and any(directory.iterdir())
