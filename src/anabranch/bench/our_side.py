"""Our join of a case, through the public surface alone."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anabranch as ab
from anabranch.bench import session
from anabranch.bench.measure import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress

    from anabranch.bench.child import Assignment
    from anabranch.bench.reporting import Reporter

EVERY_HOP = {"ctr": ab.Ctr(hop=0), "psp": ab.Psp(hop=0)}


def run(task: Assignment, to: Reporter) -> None:
    """Run it over all files and report each batch."""
    case, files = task.chosen, task.files
    spark = session.open_session(f"bench {case.name}: Anabranch", task.cores)
    planned = case.batches(files)
    streams = [
        ab.stream(
            feed.name,
            session.read(spark, feed, Path(task.data), files),
            time="ts",
            window=f"{case.window} seconds",
            lateness="1 second",
        )
        for feed in case.feeds
    ]
    outputs = [f"{feed.name}.id AS {feed.name}_id" for feed in case.feeds]
    query = ab.join(*streams).on(*case.terms).select(*outputs)
    # The first batch may be reported before `start` has returned.
    started: Future[Any] = Future()
    reported = 0

    def report(progress: StreamingQueryProgress) -> None:
        nonlocal reported
        if progress.batchId < len(planned):
            numbers = started.result().progress
            # What has come since the last report: a report that is behind counts for two.
            results, reported = numbers["results_total"] - reported, numbers["results_total"]
            to.batch(
                Batch(
                    number=progress.batchId,
                    rows=planned[progress.batchId],
                    start=session.began(progress),
                    seconds=session.took(progress),
                    results=results,
                    state_rows=numbers["state_rows"],
                    state_bytes=numbers["state_bytes"],
                )
            )

    spark.streams.addListener(session.Watch(report))
    to.start()
    checkpoint = str(Path(task.work) / "checkpoint")
    strategy: Any = EVERY_HOP[task.strategy] if task.every_hop else task.strategy
    started.set_result(
        query.start(_discard, checkpoint=checkpoint, strategy=strategy, trigger="available now")
    )
    started.result().await_termination()
    spark.stop()


def _discard(frame: DataFrame, _batch_id: int) -> None:
    """Compute every result and every column of it, and write nothing: as Spark's side does."""
    frame.write.format("noop").mode("overwrite").save()
