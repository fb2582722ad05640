"""A streaming job in a process of its own, which can be told where to stand still.

Two queries run side by side over the same files, each with its own checkpoint and output: one
with an equality, one without. A query that is told to halt at some moment of some batch leaves a
mark there and waits, so that whoever watches can kill it exactly then.

    python job.py '{"data": …, "home": …, "master": …, "halts": {"equality": ["join", 3]},
                    "strategies": {"equality": "hash", "theta": "ctr"}}'
"""

from __future__ import annotations

import json
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.spark import runtime
from anabranch.spark.builder import JoinQuery
from anabranch.spark.ingest import Ingested, IngestTask, ingest
from anabranch.spark.run import Run
from anabranch.spark.sinks import OwnedSink
from anabranch.state.compaction import Compaction
from anabranch.state.files import Files
from anabranch.state.manifest import Manifest
from anabranch.state.output import Output
from anabranch.state.store import Store

QUERIES = ("equality", "theta")
MOMENTS = ("ingest", "join", "written", "delivered", "manifest", "cleanup", "committed")
"""In the pass over the input; in a join task, while the sink writes; when the sink has written the
batch beside its place; when it is in its place; when the manifest is written but not yet in place;
when it is in place and nothing else is done; and when all is done but Spark does not know it."""

MARKS = ("session", "started", "stopping")
"""Files that tell how far the job is: Spark runs; both queries do; it begins to stop them."""

SCHEMA = "ts timestamp, id long, key string, x double"
WINDOW = "25 seconds"
LATENESS = "4 seconds"

HOP_BY_HOP: dict[str, ab.Ctr | ab.Psp] = {"ctr": ab.Ctr(hop=0), "psp": ab.Psp(hop=0)}
"""Small as the batches are, they take all their hops."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that lives for seconds does not repay much compilation: this halves its use of a core."""


@dataclass(frozen=True)
class Halt:
    """A moment of a query. Once it is armed, the first to come there leaves a mark and waits."""

    home: str
    query: str
    moment: str
    batch: int

    @property
    def reached(self) -> Path:
        """The mark: it holds the id of the process that waits."""
        return Path(self.home) / "halts" / f"{self.query}-{self.moment}-{self.batch}"

    @property
    def armed(self) -> Path:
        return self.reached.with_suffix(".armed")

    def arm(self) -> None:
        self.armed.parent.mkdir(exist_ok=True)
        self.armed.touch()

    def here(self) -> None:
        if not self.armed.exists():
            return
        mine = self.reached.with_suffix(f".{uuid.uuid4().hex}")
        mine.write_text(str(os.getpid()))
        try:
            os.link(mine, self.reached)
        except FileExistsError:
            return
        threading.Event().wait()


class Near:
    """The condition of the user's own in both queries."""

    def __init__(self, halt: Halt | None) -> None:
        self.halt = halt

    def __call__(
        self, left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        if self.halt is not None:
            self.halt.here()
        return np.asarray(np.abs(left - right) <= 4)


@dataclass(frozen=True)
class Passing:
    """Passes rows on, unless it is told to halt."""

    halt: Halt

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.halt.here()
            yield batch


def query(name: str, frame: Callable[[str], DataFrame], near: Near) -> JoinQuery:
    """One of the two queries over the frames of streams a, b and c."""
    a, b, c = (
        ab.stream(stream, frame(stream), time="ts", window=WINDOW, lateness=LATENESS)
        for stream in ("a", "b", "c")
    )
    if name == "equality":
        return (
            ab.join(a, b)
            .on("a.key = b.key AND abs(a.x - b.x) <= 5", ab.match(near, "a.x", "b.x"))
            .select("a.id AS a", "b.id AS b", "a.key")
        )
    return (
        ab.join(a, b, c)
        .on(ab.band("a.x", "b.x", width=1), ab.match(near, "b.x", "c.x"), "a.x + b.x < c.x * 2")
        .select("a.id AS a", "b.id AS b", "c.id AS c")
    )


def static(spark: SparkSession, name: str, data: Path) -> JoinQuery:
    """The query over everything there is, for the reference."""
    return query(name, lambda stream: spark.read.parquet(str(data / stream)), Near(None))


def streaming(spark: SparkSession, name: str, data: Path, halt: Halt | None) -> JoinQuery:
    """The query over the files one by one."""

    def frame(stream: str) -> DataFrame:
        files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        rows = files.parquet(str(data / stream))
        if halt is not None and halt.moment == "ingest" and stream == "b":
            return rows.mapInArrow(Passing(halt), SCHEMA)
        return rows

    return query(name, frame, Near(halt if halt is not None and halt.moment == "join" else None))


def halt_of(halts: dict[str, Halt], root: str, moment: str, batch: int) -> Halt | None:
    """The halt that a step comes to; which query it is of, its directory tells."""
    halt = halts.get(Path(root).name)
    wanted = halt is not None and (halt.moment, halt.batch) == (moment, batch)
    if wanted and halt is not None:
        halt.arm()
        return halt
    return None


def watch(halts: dict[str, Halt]) -> None:
    """Halt in the driver's own steps, by wrapping them until the process is killed, or ends."""
    commit, delete, replace = Store.commit, Files.delete, os.replace
    committing = threading.local()

    def watched_ingest(frame: DataFrame, task: IngestTask, tasks: int) -> list[Ingested]:
        halt_of(halts, task.store.files.root, "ingest", task.batch)
        return ingest(frame, task, tasks)

    def watched_commit(store: Store, manifest: Manifest, previous: Manifest) -> None:
        root = store.files.root
        for moment in ("manifest", "cleanup"):
            setattr(committing, moment, halt_of(halts, root, moment, manifest.batch))
        commit(store, manifest, previous)
        wait_at(halt_of(halts, root, "committed", manifest.batch))

    def watched_replace(source: str, target: str) -> None:
        wait_at(getattr(committing, "manifest", None))
        replace(source, target)

    def watched_delete(files: Files, path: str) -> None:
        wait_at(getattr(committing, "cleanup", None))
        delete(files, path)

    patch.object(runtime, "ingest", watched_ingest).start()
    patch.object(Store, "commit", watched_commit).start()
    patch.object(Files, "delete", watched_delete).start()
    patch.object(os, "replace", watched_replace).start()


def watch_sinks(halts: dict[str, Halt]) -> None:
    """The same in the steps of a sink."""
    deliver, publish = OwnedSink.__call__, Output.publish

    def watched_sink(sink: OwnedSink, frame: DataFrame, batch: int) -> None:
        halt_of(halts, str(sink.output.place.local), "join", batch)
        deliver(sink, frame, batch)
        wait_at(halt_of(halts, str(sink.output.place.local), "delivered", batch))

    def watched_publish(output: Output, written: Path, batch: int, digest: str) -> None:
        wait_at(halt_of(halts, str(output.place.local), "written", batch))
        publish(output, written, batch, digest)

    patch.object(OwnedSink, "__call__", watched_sink).start()
    patch.object(Output, "publish", watched_publish).start()


def wait_at(halt: Halt | None) -> None:
    if halt is not None:
        halt.here()


def session(master: str, home: Path) -> SparkSession:
    builder = SparkSession.builder.master(master)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.local.dir": str(home / "local"),
    }.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main(
    data: Path,
    home: Path,
    master: str,
    halts: dict[str, Halt],
    strategies: dict[str, str],
    runs_for: float | None,
) -> None:
    """Run both queries to their ends, or stop them after some seconds."""
    watch(halts)
    watch_sinks(halts)
    spark = session(master, home)
    (home / "session").touch()
    runs: list[Run] = []
    for name in QUERIES:
        halt = halts.get(name)
        run = streaming(spark, name, data, halt).start(
            ab.parquet_sink(str(home / "out" / name)),
            checkpoint=str(home / "checkpoint" / name),
            strategy=HOP_BY_HOP.get(strategies[name], strategies[name]),
            trigger="available now",
        )
        # Merge as soon as there are two segments to merge, so that a kill can meet a merge.
        run._runtime.compaction = Compaction(fewest=2, parts=1)
        runs.append(run)
    (home / "started").touch()
    if runs_for is not None:
        runs[0].await_termination(runs_for)
        (home / "stopping").touch()
        for run in runs:
            run.stop()
    for run in runs:
        run.await_termination()


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    main(
        Path(told["data"]),
        Path(told["home"]),
        told["master"],
        {
            name: Halt(told["home"], name, moment, batch)
            for name, (moment, batch) in told["halts"].items()
        },
        told["strategies"],
        told["runs_for"],
    )
