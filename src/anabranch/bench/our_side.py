"""Our join of a case, through the public surface alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anabranch as ab
from anabranch.bench import session
from anabranch.bench.cases import Case
from anabranch.bench.measure import Batch
from anabranch.bench.reporting import Reporter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress


def run(case: Case, data: Path, files: int, work: Path, to: Reporter) -> None:
    """Run it over all files and report each batch."""
    spark = session.open_session(f"bench {case.name}: Anabranch")
    planned = case.batches(files)
    streams = [
        ab.stream(
            feed.name,
            session.read(spark, feed, data, files),
            time="ts",
            window=f"{case.window} seconds",
            lateness="1 second",
        )
        for feed in case.feeds
    ]
    outputs = [f"{feed.name}.id AS {feed.name}_id" for feed in case.feeds]
    query = ab.join(*streams).on(*case.terms).select(*outputs)
    started: list[Any] = []

    def report(progress: StreamingQueryProgress) -> None:
        if progress.batchId < len(planned):
            to.batch(_batch(progress, planned[progress.batchId]))

    spark.streams.addListener(session.Watch(report))
    to.start()
    handle = query.start(_discard, checkpoint=str(work / "checkpoint"), trigger="available now")
    handle.await_termination()
    spark.stop()


def _discard(frame: DataFrame, batch_id: int) -> None:
    """Compute every result and every column of it, and write nothing: as Spark's side does."""
    frame.write.format("noop").mode("overwrite").save()
