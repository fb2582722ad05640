"""Where results go: any function of a DataFrame and a batch id, or the Parquet sink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from pyspark.sql import DataFrame

from anabranch.errors import CheckpointError, QueryError
from anabranch.state.lock import Lock
from anabranch.state.manifest import Manifest
from anabranch.state.output import Output, owners_of
from anabranch.state.ownership import Claim, refuse_inside, take
from anabranch.state.place import Place, absolute
from anabranch.state.store import Store

Sink = Callable[[DataFrame, int], object]
"""Called once per batch. After a failure the same batch comes again, with the same id and rows."""

log = logging.getLogger(__name__)

BATCH = "batch"
"""The column that directories of batches have for their readers."""

ROWS_ASIDE = {
    "late": ("stream", "reason", "time"),
    "dead": ("stream", "stage", "reason", BATCH, "time"),
}
"""Sinks of rows that were set aside, and the columns that describe such a row."""


@dataclass(frozen=True)
class ParquetSink:
    """Writes each batch to a directory of its own, which becomes visible whole."""

    path: str
    append: bool = False

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write a batch from a function sink: without an owner, and replacing one of that id."""
        place = Place.of(self.path)
        if place.local is None:
            _write(frame, f"{place.spark}/batch={batch}", mode="overwrite")
            return
        output = Output(place)
        owners = owners_of(output.files)
        if owners:
            raise CheckpointError(
                f"{place.spark} belongs to checkpoint {owners[-1].id}; a function sink has to "
                "write somewhere else"
            )
        _write_beside(frame, output, batch, "")


@dataclass
class OwnedSink:
    """The Parquet sink of a run: a directory that belongs to its checkpoint."""

    role: str
    output: Output
    digest: Callable[[int], str]
    """Tells the rows of a batch from those of any other."""
    delivered: int | None
    """The last batch that was handed to this sink."""

    def __call__(self, frame: DataFrame, batch: int) -> None:
        digest = self.digest(batch)
        if self.output.holds(batch, digest):
            # The rows are the same, and stay. But the tasks that make them leave reports, and
            # merged segments, which the manifest needs.
            frame.write.format("noop").mode("overwrite").save()
        elif self.output.place.local is None:
            _write(frame, f"{self.output.place.spark}/{self.output.name(batch)}", mode="overwrite")
            self.output.seal_remote(batch, digest)
        else:
            _write_beside(frame, self.output, batch, digest)
        self.delivered = batch


def parquet_sink(path: str, *, append: bool = False) -> ParquetSink:
    """Deliver each result exactly once into Parquet files below `path`, one directory per batch.

    Read them with `spark.read.parquet(path)`, which adds the column `batch`. The directory belongs
    to the checkpoint that first wrote to it; another one is refused, or, with `append`, goes on
    behind the batches that are there.
    """
    return ParquetSink(absolute(str(path)), append)


def check_places(sinks: Mapping[str, Sink | None], checkpoint: Place) -> None:
    """Refuse sinks that would write into each other, into the checkpoint, or into others'."""
    places = {"checkpoint": checkpoint}
    for role, sink in sinks.items():
        if isinstance(sink, ParquetSink):
            places[f"sink of {role}"] = Place.of(sink.path)
    for (one, first), (other, second) in combinations(places.items(), 2):
        if first.overlaps(second):
            raise QueryError(
                f"the {one} is {first.spark} and the {other} is {second.spark}: each needs a "
                "directory of its own, and neither may lie inside the other"
            )
    for place in places.values():
        refuse_inside(place)


def check_columns(
    sinks: Mapping[str, Sink | None], results: Iterable[str], streams: Sequence[str]
) -> None:
    """Refuse columns that readers of a directory, or of rows set aside, could not see.

    `batch=N` is a column to every reader, and takes the place of one of that name in the files.
    """
    hidden = [name for name in results if name.lower() == BATCH]
    if hidden and isinstance(sinks["results"], ParquetSink):
        raise QueryError(
            f"the select has a column {hidden[0]}, and so have the directories batch=N of "
            "ab.parquet_sink: readers would see the number of the batch instead. Give the column "
            "another name with AS"
        )
    for role, described in ROWS_ASIDE.items():
        sink = sinks[role]
        taken = {*described, BATCH} if isinstance(sink, ParquetSink) else set(described)
        clash = [name for name in streams if name.lower() in taken]
        if sink is not None and clash:
            raise QueryError(
                f"a stream is named {clash[0]}, and {role} rows have a column of that name beside "
                "one per stream. Give the stream another name"
            )


def open_sinks(
    sinks: Mapping[str, Sink | None],
    store: Store,
    checkpoint: str,
    manifest: Manifest,
    lock: Lock,
) -> dict[str, Sink | None]:
    """The sinks that a run is to call: those of Parquet with their directories taken.

    `checkpoint` is the checkpoint's id, and `lock` its lock: the directories are locked for as
    long as it is held.
    """
    opened = dict(sinks)
    for role, sink in sinks.items():
        if isinstance(sink, ParquetSink):
            last = manifest.counters.get("delivered", {}).get(role)
            claim = Claim(checkpoint, manifest.batch, last, sink.append, role)
            output = _taken(Place.of(sink.path), claim, lock)
            if output is not None:
                opened[role] = OwnedSink(role, output, store.offsets_digest, last)
    return opened


def _taken(place: Place, claim: Claim, lock: Lock) -> Output | None:
    """A directory of a checkpoint's own; None on a store that Spark reaches and Python does not."""
    try:
        output, taken = take(place, claim)
    except (OSError, ValueError) as error:
        if place.local is not None:
            raise CheckpointError(
                f"the output {place.spark} cannot be prepared: {error}. Choose a directory that "
                "this process may write to"
            ) from error
        log.warning("%s has no owner, since Python does not reach it: %s", place.spark, error)
        return None
    lock.hold(taken)
    return output


def delivered(sinks: Iterable[Sink | None], before: Mapping[str, int]) -> dict[str, int]:
    """The last batch that each built-in sink took, by its role."""
    owned = [sink for sink in sinks if isinstance(sink, OwnedSink)]
    return {**before, **{s.role: s.delivered for s in owned if s.delivered is not None}}


def _write(frame: DataFrame, path: str, mode: str = "errorifexists") -> None:
    frame.write.mode(mode).parquet(path)


def _write_beside(frame: DataFrame, output: Output, batch: int, digest: str) -> None:
    written = output.begin(batch)
    try:
        _write(frame, output.place.beside(written))
        output.publish(written, batch, digest)
    except BaseException:
        output.discard(written)
        raise
