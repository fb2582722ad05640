"""Carry out a job file: build its query on Spark, then explain it or run it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

import anabranch as ab
from anabranch.cli.interrupt import stop_requests
from anabranch.cli.jobfile import Job, read_job
from anabranch.cli.session import source_frame, spark_session, ui_address
from anabranch.cli.tables import JobError
from anabranch.cli.view import follow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.spark.builder import JoinQuery
    from anabranch.spark.run import Run


@dataclass(frozen=True)
class Limit:
    """When a run is told to stop, if it has not ended by itself: None is never."""

    seconds: float | None = None
    batches: int | None = None

    def reached_by(self, run: Run) -> Callable[[], bool]:
        """Whether this run has reached it, from now on."""
        start = time.monotonic()
        before = run.progress["batches"]

        def reached() -> bool:
            late = self.seconds is not None and time.monotonic() - start > self.seconds
            done = self.batches is not None and run.progress["batches"] - before >= self.batches
            return late or done

        return reached


def explain_job(path: Path, master: str | None) -> int:
    """Print what a job would do. Nothing is started and nothing is written."""
    job = read_job(path)
    with spark_session(job.name, master or job.master, job.config) as spark:
        print(build_query(job, spark).explain())
    return 0


def run_job(
    path: Path, master: str | None, limit: Limit, console: Console, *, verbose: bool = False
) -> int:
    """Run a job until its input ends, it reaches its limit or it is interrupted."""
    job = read_job(path)
    running = job.running
    if running is None:
        raise JobError(
            f"{job.name} has no [run]; add where results and state go: "
            '[run] with sink = "out" and checkpoint = "checkpoint"'
        )
    with spark_session(
        job.name, master or job.master, job.config, ui=True, verbose=verbose
    ) as spark:
        query = build_query(job, spark)
        options: dict[str, Any] = dict(running.options)
        for role, place in (("late", running.late), ("dead", running.dead)):
            if place is not None:
                options[role] = ab.parquet_sink(place, append=running.append)
        sink = ab.parquet_sink(running.sink, append=running.append)
        run = query.start(sink, checkpoint=running.checkpoint, **options)
        console.print(f"{job.name} is running; Spark UI: {ui_address(spark)}", highlight=False)
        reached = limit.reached_by(run)
        try:
            # A run that fails raises its error here.
            with stop_requests() as requested:
                follow(run, console, job.name, until=lambda: requested.is_set() or reached())
        finally:
            run.stop()
        if requested.is_set():
            console.print("Stopped; the same command goes on from here.")
        summarize(run, running.sink, console)
    return 0


def build_query(job: Job, spark: SparkSession) -> JoinQuery:
    """The query that a job file describes, on streaming frames."""
    streams = []
    for source in job.streams:
        frame = source_frame(spark, source)
        streams.append(
            ab.stream(source.name, frame, time=source.time, window=source.window, **source.slack)
        )
    return ab.join(*streams).on(*job.on).select(*job.select)


def summarize(run: Run, sink: str, console: Console) -> None:
    """Say what came of it, and the likeliest reason where nothing did."""
    progress = run.progress
    rows = sum(stream["arrived"] for stream in progress["streams"].values())
    late = sum(stream["late"] for stream in progress["streams"].values())
    console.print(
        f"{progress['batches']:,} batches, {rows:,} rows ({late:,} of them late), "
        f"{progress['results_total']:,} results in {sink}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(run.diagnose().sentence, highlight=False)
