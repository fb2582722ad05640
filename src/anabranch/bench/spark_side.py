"""Spark's own stream-stream join of a case, put to it as well as its rules allow.

The window condition is ours, for every pair of streams: `t_j - t_i <= W` both ways. Spark reads
from the same condition how long it must keep a row. A chain of joins may carry one event-time
column only (otherwise MULTIPLE_EVENT_TIME_COLUMNS), so the times of later streams go on as plain
numbers, which still state the condition exactly.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.functions import count, expr, lit

from anabranch.bench import session
from anabranch.bench.cases import Case, Feed, SparkPlan
from anabranch.bench.child import Assignment
from anabranch.bench.measure import Batch
from anabranch.bench.reporting import Reporter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress


def run(task: Assignment, to: Reporter) -> None:
    """Run it over all files and report each batch."""
    case, files = task.chosen, task.files
    spark = session.open_session(f"bench {case.name}: Spark")
    planned = case.batches(files)

    def report(progress: StreamingQueryProgress) -> None:
        if progress.batchId < len(planned):
            to.batch(_batch(progress, planned[progress.batchId]))

    spark.streams.addListener(session.Watch(report))
    frame = joined(spark, case, case.spark[task.plan], Path(task.data), files)
    counted = frame.observe("bench", count(lit(1)).alias("results"))
    to.start()
    query = (
        counted.writeStream.format("noop")
        .option("checkpointLocation", str(Path(task.work) / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def joined(spark: SparkSession, case: Case, plan: SparkPlan, data: Path, files: int) -> DataFrame:
    """The chain of joins, from the first stream to the last."""
    first, *others = case.feeds
    frame = _prepared(spark, first, plan, data, files)
    before = [f"unix_micros({first.name}_ts)"]
    for feed, condition in zip(others, plan.conditions, strict=True):
        right = _prepared(spark, feed, plan, data, files)
        frame = frame.join(right, expr(f"{condition} AND {_window(case, feed, before)}"))
        time = f"unix_micros({feed.name}_ts)"
        frame = frame.withColumn(f"{feed.name}_t", expr(time)).drop(f"{feed.name}_ts")
        before.append(f"{feed.name}_t")
    return frame.select(*[f"{feed.name}_id" for feed in case.feeds])


def _prepared(
    spark: SparkSession, feed: Feed, plan: SparkPlan, data: Path, files: int
) -> DataFrame:
    names = ["ts", "id", *[name for name, _ in feed.columns]]
    frame = session.read(spark, feed, data, files)
    frame = frame.selectExpr(*[f"{name} AS {feed.name}_{name}" for name in names])
    frame = frame.withWatermark(f"{feed.name}_ts", "1 second")
    return frame.selectExpr("*", *plan.extra.get(feed.name, ()))


def _window(case: Case, feed: Feed, before: list[str]) -> str:
    """That a stream's time is within the window of every stream before it.

    The first of them still has its event-time column, from which Spark derives when state ends.
    """
    first, time = case.feeds[0].name, f"{feed.name}_ts"
    span = f"interval {case.window} seconds"
    with_first = f"{time} >= {first}_ts - {span} AND {time} <= {first}_ts + {span}"
    micros = case.window * 1_000_000
    with_others = [f"abs(unix_micros({time}) - {other}) <= {micros}" for other in before[1:]]
    return " AND ".join([with_first, *with_others])


def _batch(progress: StreamingQueryProgress, rows: int) -> Batch:
    observed = progress.observedMetrics.get("bench")
    return Batch(
        number=progress.batchId,
        rows=rows,
        start=session.began(progress),
        seconds=session.took(progress),
        results=int(observed["results"]) if observed is not None else 0,
        state_rows=sum(state.numRowsTotal for state in progress.stateOperators),
        state_bytes=sum(state.memoryUsedBytes for state in progress.stateOperators),
    )
