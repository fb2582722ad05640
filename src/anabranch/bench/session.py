"""The Spark session of a side. Both sides get the same one: what differs is the join alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from anabranch.bench.cases import CORES, Feed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )


def open_session(name: str, cores: int = CORES) -> SparkSession:
    """So many cores and 4 GB, on this machine."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spares every Python task 40 ms of waiting; Spark's own joins have no such task.
        "spark.python.unix.domain.socket.enabled": "true",
        # Spark's stateful operators have one task per shuffle partition: as many as cores.
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.appName(name).master(f"local[{cores}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read(spark: SparkSession, feed: Feed, data: Path, files: int) -> DataFrame:
    """A stream of a case as a streaming frame, so many files a batch."""
    reader = spark.readStream.schema(feed.schema).option("maxFilesPerTrigger", files)
    return reader.parquet(str(data / feed.name))


class Watch(StreamingQueryListener):
    """Hands the progress of every batch on: Spark's own measurement, the same for both sides."""

    def __init__(self, report: Callable[[StreamingQueryProgress], None]) -> None:
        self._report = report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 (Spark's name)
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 (Spark's name)
        self._report(event.progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 (Spark's name)
        pass


def began(progress: StreamingQueryProgress) -> float:
    """When a batch began, in seconds since the epoch."""
    return datetime.fromisoformat(progress.timestamp).timestamp()


def took(progress: StreamingQueryProgress) -> float:
    """How long a batch took, from the look for new files to the commit, in seconds."""
    return float(progress.durationMs["triggerExecution"]) / 1000
