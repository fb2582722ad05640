"""Where results go: any function of a DataFrame and a batch id, or the Parquet sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

Sink = Callable[[DataFrame, int], object]
"""Called once a batch. After a failure the same batch comes again, with the same id and rows."""


@dataclass(frozen=True)
class ParquetSink:
    """Writes each batch to a directory of its own; a repeated batch replaces it."""

    path: str

    def __call__(self, frame: DataFrame, batch: int) -> None:
        frame.write.mode("overwrite").parquet(f"{self.path.rstrip('/')}/batch={batch}")


def parquet_sink(path: str) -> ParquetSink:
    """Deliver each result exactly once into Parquet files below `path`, one directory a batch.

    Read them with `spark.read.parquet(path)`, which adds the column `batch`.
    """
    return ParquetSink(str(path))
