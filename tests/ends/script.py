"""A program as a user writes it, in an ordinary local session: `script.py HOME TRIGGER [STOPS]`.

With STOPS it stops the run so many times, at other moments each, and then lets it finish.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.spark import run as running


def main(home: Path, trigger: str, stops: int) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .getOrCreate()
    )

    def files(stream: str) -> DataFrame:
        reader = spark.readStream.schema("ts timestamp, id long, key string, x double")
        return reader.option("maxFilesPerTrigger", 1).parquet(str(home / "data" / stream))

    a, b = (
        ab.stream(name, files(name), time="ts", window="25 seconds", lateness="4 seconds")
        for name in ("a", "b")
    )
    query = (
        ab.join(a, b).on("a.key = b.key", "abs(a.x - b.x) <= 5").select("a.id AS a", "b.id AS b")
    )

    def start(when: str) -> running.Run:
        checkpoint = str(home / "disk" / "state")
        return query.start(ab.parquet_sink(str(home / "out")), checkpoint=checkpoint, trigger=when)

    if stops:
        running.GRACE_SECONDS = 0.0  # so that batches under way are cut off
    for stop in range(stops):
        run = start("0 seconds")
        run.await_termination(0.3 * stop)
        run.stop()
    run = start(trigger)
    batches = run.progress["batches"]
    while not run.await_termination(0.1):
        if run.progress["batches"] > batches:
            batches = run.progress["batches"]
            print(f"batch {run.progress['batch']}", flush=True)  # noqa: T201 - the test waits for it


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
