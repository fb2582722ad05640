"""What a start goes on from: the newest manifest, checked before anything is deleted.

A checkpoint has two halves that are written one after the other: in a batch, Spark writes its
offsets, we write our manifest, and Spark writes its commit. So of a run that was cut off anywhere
the halves agree, but for the one batch that was under way. Where they do not, a part of the
checkpoint was lost, damaged or restored from another time, and going on would lose or repeat
results: it is refused.
"""

from __future__ import annotations

from anabranch.errors import CheckpointError
from anabranch.state.driver_checkpoint import check_driver_files
from anabranch.state.manifest import NO_BATCH, Manifest
from anabranch.state.store import Store

WAY_OUT = (
    "Restore the whole checkpoint from one backup, or start from a new checkpoint (and a new "
    "output)"
)


def recover(store: Store, streams: int, *, driven: bool) -> Manifest | None:
    """The manifest to go on from; None before the first batch. What no manifest names is deleted.

    `driven` says whether Structured Streaming drives the run, so that it has a checkpoint too.
    Raises CheckpointError where going on would not be exact.
    """
    latest = store.latest()
    if latest is not None and len(latest.segments) != streams:
        raise CheckpointError(
            f"the newest manifest under {store.files.root} is of a join of {len(latest.segments)} "
            f"streams, and this query has {streams}. {WAY_OUT}"
        )
    _check_driver(store, latest, driven=driven)
    if latest is not None:
        _check_segments(store, latest)
    store.sweep(latest)
    return latest


def _check_driver(store: Store, latest: Manifest | None, *, driven: bool) -> None:
    """Refuse state that Spark's half of the checkpoint does not belong to."""
    root = store.files.root
    ours = NO_BATCH if latest is None else latest.batch
    planned, committed = (_newest(store, f"spark/{part}") for part in ("offsets", "commits"))
    untouched = planned == committed == NO_BATCH
    if not driven:
        if untouched and (latest is None or not latest.digest):
            return
        raise CheckpointError(
            f"the checkpoint {root} is of a run over streams, and all inputs are static now. Use "
            "the inputs that it was made with, or a new checkpoint"
        )
    # After batch b: offsets b, manifest b, commit b. The next batch may have its offsets already.
    agreed = committed in (ours, ours - 1) and planned in (ours, committed + 1)
    if ours == NO_BATCH:
        agreed = committed == NO_BATCH and planned in (NO_BATCH, 0)
    if not agreed:
        theirs = f"Spark's half of it has planned batch {planned} and committed batch {committed}"
        if untouched:
            theirs = "Spark's half of it, below spark/, is missing"
        state = f"has committed batch {ours}" if latest is not None else "has no manifest"
        raise CheckpointError(
            f"the checkpoint {root} {state}, but {theirs}: these are of different times, and "
            f"going on would lose results or repeat them. {WAY_OUT}"
        )
    if latest is not None and store.offsets_digest(latest.batch) != latest.digest:
        raise CheckpointError(
            f"in the checkpoint {root}, Spark's offsets of batch {latest.batch} are not those "
            f"that the manifest was written for: these are of different runs. {WAY_OUT}"
        )
    check_driver_files(store.files, {} if latest is None else latest.sources)


def _newest(store: Store, directory: str) -> int:
    """The highest batch in one of Spark's logs. Beside its entries lie checksums of theirs."""
    names = (name.rpartition("/")[2] for name in store.files.names(directory))
    return max((int(name) for name in names if name.isdecimal()), default=NO_BATCH)


def _check_segments(store: Store, latest: Manifest) -> None:
    """Refuse if a live segment is missing or has another size. None of them is read."""
    sizes = store.files.sizes("segments")
    for ref in latest.named():
        if sizes.get(ref.path) == ref.bytes:
            continue
        found = f"has {sizes[ref.path]} bytes" if ref.path in sizes else "is missing"
        raise CheckpointError(
            f"segment {ref.path} under {store.files.root} is damaged: it {found}, and manifest "
            f"{latest.batch} says {ref.bytes} bytes. Restore the file from a backup, or start "
            "from a new checkpoint"
        )
