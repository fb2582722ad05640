"""What a run shows of itself, how it keeps its state small, and how it restarts."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.model.duration import Duration
from anabranch.spark.builder import JoinQuery
from tests.streams import KEYED, delivered, file_stream, finish, table, write_file


def pair(
    spark: SparkSession, home: Path, seconds: list[list[int]], idle: Duration | None = None
) -> JoinQuery:
    """Streams a and b with one row at each of these seconds in each batch; all keys are equal."""
    batches = [table(KEYED, [(t, 1, t) for t in times]) for times in seconds]
    streams = [
        ab.stream(
            name, file_stream(spark, home / name, batches), time="ts", window="5 seconds", idle=idle
        )
        for name in "ab"
    ]
    return ab.join(*streams).on("a.k = b.k").select("a.id AS a", "b.id AS b")


def test_progress_tells_the_numbers_of_a_run(spark: SparkSession, tmp_path: Path) -> None:
    run = finish(pair(spark, tmp_path, [[0, 1], [2]]), tmp_path, hosts=3)
    progress = run.progress
    assert json.loads(json.dumps(progress)) == progress
    assert (progress["batch"], progress["batches"]) == (1, 2)
    assert (progress["results"], progress["results_total"]) == (5, 9)
    assert (progress["strategy"], progress["hosts"]) == ("hash", 3)
    assert (progress["state_rows"], progress["segments"]) == (6, 4)
    assert progress["watermark"] == "2026-01-01T00:00:02+00:00"
    assert progress["streams"]["a"]["arrived"] == 3
    assert progress["terms"]["a.k = b.k"]["matched"] == 9
    top = progress["multiplying"][0]
    assert top["results"] == 3
    assert top["values"] == {"k": "1"}


def test_diagnose_names_the_row_that_multiplies(spark: SparkSession, tmp_path: Path) -> None:
    run = finish(pair(spark, tmp_path, [[0] * 250]), tmp_path)
    assert "Each arrived row gives 125 results" in run.diagnose().sentence
    assert "k=1" in run.diagnose().sentence
    assert "arrived 250" in str(run.diagnose())


def test_diagnose_knows_streams_that_never_meet_in_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    early = table(KEYED, [(0, 1, 1)])
    late = table(KEYED, [(3600, 1, 1)])
    streams = [
        ab.stream(name, file_stream(spark, tmp_path / name, [rows]), time="ts", window="1 second")
        for name, rows in (("a", early), ("b", late))
    ]
    query = ab.join(*streams).on("a.k = b.k").select("a.id AS a")
    sentence = finish(query, tmp_path).diagnose().sentence
    assert "No two rows lie in each other's windows: a has come to 2026-01-01T00:00:00" in sentence


def test_diagnose_names_the_term_that_never_matches(spark: SparkSession, tmp_path: Path) -> None:
    query = pair(spark, tmp_path, [[0, 1, 2]])
    query = ab.join(*query.inputs).on("a.k = b.k", ab.band("a.id", "b.id", 0), "a.id + b.id = 99")
    sentence = finish(query.select("a.id AS a"), tmp_path).diagnose().sentence
    assert sentence == "The term a.id + b.id = 99 has matched none of 3 pairs in the window."


def test_diagnose_counts_what_was_filtered(spark: SparkSession, tmp_path: Path) -> None:
    query = pair(spark, tmp_path, [[0, 1]])
    query = ab.join(*query.inputs).on("a.k = b.k AND b.id > 7").select("a.id AS a")
    run = finish(query, tmp_path)
    assert run.progress["streams"]["b"]["filtered"] == 2
    assert "2 are filtered on arrival" in run.diagnose().sentence


def test_small_segments_are_merged_and_the_answer_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [table(KEYED, [(t / 10, t % 3, t)]) for t in range(14)]
    streams = [
        ab.stream(name, file_stream(spark, tmp_path / name, batches), time="ts", window="1 minute")
        for name in "ab"
    ]
    for condition in ("a.k = b.k", "abs(a.k - b.k) < 1"):
        home = tmp_path / str(len(condition))
        query = ab.join(*streams).on(condition).select("a.id AS a", "b.id AS b")
        run = finish(query, home)
        same = [(a, b) for a in range(14) for b in range(14) if a % 3 == b % 3]
        assert delivered(spark, home) == Counter(same)
        assert run.progress["segments"] < 20
        assert run.progress["state_rows"] == 28
        files = list((home / "checkpoint" / "segments").rglob("*.seg"))
        assert len(files) == run.progress["segments"]


def test_a_stopped_run_goes_on_where_it_was_even_with_another_strategy(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = pair(spark, tmp_path, [[0], [1]])
    finish(query, tmp_path, strategy="central")
    for name in "ab":
        write_file(tmp_path / name, 2, table(KEYED, [(2, 1, 2)]))
    run = finish(query, tmp_path, strategy="hash", hosts=5)
    assert delivered(spark, tmp_path) == Counter((a, b) for a in range(3) for b in range(3))
    assert run.progress["batches"] == 3


def test_state_without_sparks_own_checkpoint_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = pair(spark, tmp_path, [[0]])
    finish(query, tmp_path)
    shutil.rmtree(tmp_path / "checkpoint" / "spark")
    with pytest.raises(ab.CheckpointError, match="has committed batch 0, but Spark's half"):
        finish(query, tmp_path)


def test_a_live_run_waits_and_stops(spark: SparkSession, tmp_path: Path) -> None:
    query = pair(spark, tmp_path, [[0]])
    run = query.start(
        ab.parquet_sink(str(tmp_path / "out")), checkpoint=str(tmp_path / "c"), trigger="1 second"
    )
    while run.progress["batches"] < 1:
        assert run.await_termination(timeout=0.1) is False
    run.stop()
    assert (run.is_active, run.exception) == (False, None)
    assert delivered(spark, tmp_path) == Counter([(0, 0)])


def test_jobs_are_described_for_the_spark_ui(spark: SparkSession, tmp_path: Path) -> None:
    finish(pair(spark, tmp_path, [[0]]), tmp_path)
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    described = {jobs.apply(i).description().toString() for i in range(min(jobs.size(), 20))}
    assert "Some(a ⋈ b: batch 0, ingest)" in described
    assert "Some(a ⋈ b: batch 0, join)" in described


@pytest.mark.parametrize("strategy", ["auto", "central"])
def test_explain_says_what_will_happen_before_anything_runs(
    spark: SparkSession, tmp_path: Path, strategy: str
) -> None:
    query = pair(spark, tmp_path, [[0]])
    text = ab.join(*query.inputs).on("a.k = b.k", "a.id > 3", "a.id <> b.id").explain(strategy)
    assert "filtered on arrival: a.id > 3" in text
    assert "a: window 5 seconds, lateness 0 seconds" in text
    wanted = {
        "auto": "Strategy: hash on 2 host(s)\n  an equality spans all streams",
        "central": "Strategy: central on 1 host(s)\n  as asked for",
    }
    assert wanted[strategy] in text
    assert "new rows of a → b" in text


def test_workers_do_not_collect_what_they_have_imported(
    spark: SparkSession, tmp_path: Path
) -> None:
    finish(pair(spark, tmp_path, [[0, 1], [2]]), tmp_path)

    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        yield pa.RecordBatch.from_pydict({"count": [gc.get_freeze_count()]})

    counts = spark.range(2).coalesce(1).mapInArrow(frozen, "count long").collect()
    assert counts[0]["count"] > 10_000


def test_a_settled_process_ends_without_a_complaint() -> None:
    code = (
        "import duckdb; duckdb.sql('select 1').fetchall()\n"
        "from anabranch.spark.worker import settle; settle()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
