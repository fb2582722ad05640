"""Spark's files are those that the manifest was written for; what Spark deletes is not missed."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.errors import CheckpointError
from anabranch.state.driver_checkpoint import check_driver_files, record_sources
from anabranch.state.files import Files
from anabranch.state.store import Store
from tests.streams import KEYED, file_stream, table, write_file


def put(home: Path, name: str, text: str) -> None:
    """A file as Hadoop writes it: its checksum stands beside it."""
    path = home / "spark" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    sums = b"crc\0" + struct.pack(">i", 512) + struct.pack(">I", zlib.crc32(text.encode()))
    path.with_name(f".{path.name}.crc").write_bytes(sums)


def drop(home: Path, name: str) -> None:
    path = home / "spark" / name
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """As of batch 2: two sources, with an entry per batch each."""
    put(tmp_path, "metadata", '{"id":"7"}')
    for batch in range(3):
        put(tmp_path, f"offsets/{batch}", f"v1\n{batch}")
        put(tmp_path, f"commits/{batch}", "v1\n{}")
        for source in range(2):
            put(tmp_path, f"sources/{source}/{batch}", f"v1\nfile {batch}")
    return tmp_path


def test_what_was_recorded_is_read_once_and_agrees(home: Path) -> None:
    files = Files(str(home))
    recorded = record_sources(files, {})
    assert list(recorded) == [f"spark/sources/{s}/{b}" for s in range(2) for b in range(3)]
    check_driver_files(files, recorded)
    known = {"spark/sources/0/1": "known before", "spark/sources/1/2": "this too"}
    assert record_sources(files, known) == {
        **known,
        "spark/sources/0/2": recorded["spark/sources/0/2"],
    }


@pytest.mark.parametrize(
    "name",
    ["metadata", "offsets/1", "offsets/2", "commits/2", *(f"sources/1/{b}" for b in range(3))],
)
def test_a_changed_file_is_refused_by_name(home: Path, name: str) -> None:
    files = Files(str(home))
    recorded = record_sources(files, {})
    path = home / "spark" / name
    path.write_text(path.read_text().replace("1", "3") + " ")
    with pytest.raises(CheckpointError, match=f"spark/{name} .* does not agree"):
        check_driver_files(files, recorded)
    path.write_text("")
    with pytest.raises(CheckpointError, match=f"spark/{name} .* is empty"):
        check_driver_files(files, recorded)


def test_an_entry_that_is_another_with_its_checksum_is_refused(home: Path) -> None:
    files = Files(str(home))
    recorded = record_sources(files, {})
    put(home, "sources/1/2", "v1\nfile 1")
    with pytest.raises(
        CheckpointError, match=r"spark/sources/1/2 .* when the manifest was written"
    ):
        check_driver_files(files, recorded)


def test_a_file_whose_checksum_alone_is_there_is_refused(home: Path) -> None:
    for name in ("metadata", "commits/2", "sources/1/2"):
        path = home / "spark" / name
        before = path.read_bytes()
        path.unlink()
        with pytest.raises(CheckpointError, match=f"spark/{name} .* is missing"):
            check_driver_files(Files(str(home)), {})
        path.write_bytes(before)


def test_an_id_that_spark_could_not_read_is_refused(home: Path) -> None:
    put(home, "metadata", "v1\n{}")
    with pytest.raises(CheckpointError, match=r"spark/metadata .* does not hold the query's id"):
        check_driver_files(Files(str(home)), {})
    drop(home, "metadata")
    with pytest.raises(CheckpointError, match=r"spark/metadata .* is missing"):
        check_driver_files(Files(str(home)), {})
    put(home, "metadata", "[]")
    with pytest.raises(CheckpointError, match=r"spark/metadata .* does not hold the query's id"):
        check_driver_files(Files(str(home)), {})


@pytest.mark.parametrize("batch", range(3))
def test_an_entry_that_is_missing_is_refused(home: Path, batch: int) -> None:
    files = Files(str(home))
    recorded = record_sources(files, {})
    drop(home, f"sources/0/{batch}")
    with pytest.raises(CheckpointError, match=f"spark/sources/0/{batch} .* is missing"):
        check_driver_files(files, recorded)


def test_entries_before_a_compact_one_are_not_missed(home: Path) -> None:
    files = Files(str(home))
    recorded = record_sources(files, {})
    put(home, "sources/0/3.compact", "v1\nfiles 0 to 3")
    check_driver_files(files, recorded)
    for batch in range(3):
        drop(home, f"sources/0/{batch}")
    check_driver_files(files, recorded)
    assert next(iter(record_sources(files, recorded))) == "spark/sources/0/3.compact"
    drop(home, "sources/1/0")
    with pytest.raises(CheckpointError, match="spark/sources/1/0"):
        check_driver_files(files, recorded)


def test_the_logs_that_spark_compacts_and_deletes_do_not_keep_a_run_from_going_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    small = {
        "spark.sql.streaming.fileSource.log.compactInterval": "2",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "1ms",
        "spark.sql.streaming.minBatchesToRetain": "2",
    }
    frames = {
        name: file_stream(spark, tmp_path / name, [table(KEYED, [(0, 1, 0)])]) for name in "ab"
    }
    a, b = (ab.stream(name, frame, time="ts", window="1 hour") for name, frame in frames.items())
    query = ab.join(a, b).on("a.k = b.k").select("a.id AS a", "b.id AS b")
    for name, value in small.items():
        spark.conf.set(name, value)
    try:
        for batch in range(1, 5):
            query.start(
                ab.parquet_sink(str(tmp_path / "out")),
                checkpoint=str(tmp_path / "checkpoint"),
                trigger="available now",
            ).await_termination()
            for name in "ab":
                write_file(tmp_path / name, 2 * batch, table(KEYED, [(0, 1, batch)]))
                write_file(tmp_path / name, 2 * batch + 1, table(KEYED, [(0, 2, batch)]))
    finally:
        for name in small:
            spark.conf.unset(name)
    latest = Store.at(str(tmp_path / "checkpoint")).latest()
    assert latest is not None
    assert latest.batch == 6
    assert not (tmp_path / "checkpoint" / "spark" / "sources" / "0" / "0").exists()
    assert not (tmp_path / "checkpoint" / "spark" / "offsets" / "0").exists()
    assert spark.read.parquet(str(tmp_path / "out")).count() == 4 * 4 + 3 * 3
