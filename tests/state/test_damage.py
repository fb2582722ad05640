"""A run over a damaged checkpoint fails, names the file, and joins nothing with it."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.spark.run import Run
from anabranch.state.store import Store

START = datetime(2026, 1, 1, tzinfo=UTC)


def put(home: Path, number: int) -> None:
    """One more file of each stream: two rows that meet each other and those of all other files."""
    for stream in ("left", "right"):
        path = home / stream / f"{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        moments = [START + timedelta(seconds=2 * number + row) for row in range(2)]
        pq.write_table(
            pa.table(
                {
                    "ts": pa.array(moments, pa.timestamp("us", "UTC")),
                    "id": [2 * number, 2 * number + 1],
                    "key": [7, 7],
                }
            ),
            path,
        )
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def start(spark: SparkSession, home: Path) -> Run:
    left, right = (
        ab.stream(
            name,
            spark.readStream.schema("ts timestamp, id long, key long").parquet(str(home / name)),
            time="ts",
            window="1 hour",
        )
        for name in ("left", "right")
    )
    query = ab.join(left, right).on("left.key = right.key").select("left.id AS l", "right.id AS r")
    return query.start(
        ab.parquet_sink(str(home / "out")),
        checkpoint=str(home / "checkpoint"),
        trigger="available now",
    )


def delivered(home: Path) -> set[tuple[int, int]]:
    table = ds.dataset(home / "out", format="parquet", partitioning="hive").to_table()
    return set(zip(table["l"].to_pylist(), table["r"].to_pylist(), strict=True))


def overwritten(path: Path) -> None:
    """As a failing disk does it: other bytes in the same place."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0xFF]))


def cut(path: Path) -> None:
    """As a wrong restore does it: another file of that name."""
    path.with_suffix(".new").write_bytes(path.read_bytes()[:-7])
    path.with_suffix(".new").replace(path)


def lost(path: Path) -> None:
    path.unlink()


def test_a_damaged_segment_fails_the_run_by_name_and_is_joined_with_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path, 0)
    start(spark, tmp_path).await_termination()
    before = {(left, right) for left in range(2) for right in range(2)}
    assert delivered(tmp_path) == before

    latest = Store.at(str(tmp_path / "checkpoint")).latest()
    assert latest is not None
    name = latest.segments[0][0].path
    victim = tmp_path / "checkpoint" / name
    whole = victim.read_bytes()
    put(tmp_path, 1)
    for damage in (overwritten, cut, lost):
        damage(victim)
        with pytest.raises(ab.CheckpointError, match=f"{name} .* is damaged"):
            start(spark, tmp_path).await_termination()
        assert delivered(tmp_path) == before
        victim.write_bytes(whole)

    # The file is restored, and the next run goes on as if nothing had been.
    start(spark, tmp_path).await_termination()
    assert delivered(tmp_path) == {(left, right) for left in range(4) for right in range(4)}
