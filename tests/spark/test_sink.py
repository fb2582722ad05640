"""The Parquet sink of a run: whole batches, once each, in a directory of the checkpoint's own."""

from __future__ import annotations

import contextlib
import re
import runpy
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.spark.builder import JoinQuery
from anabranch.spark.run import Run
from anabranch.spark.sinks import OwnedSink
from anabranch.state.files import Files
from anabranch.state.identity import IDENTITY
from anabranch.state.lock import Lock
from anabranch.state.output import SEAL
from anabranch.state.ownership import Claim, take
from anabranch.state.place import Place
from anabranch.state.store import Store
from tests.streams import KEYED, counted, delivered, file_stream, finish, table, write_file


def pair(spark: SparkSession, home: Path, seconds: Sequence[Sequence[float]]) -> JoinQuery:
    """Streams a and b with one row at each of these seconds in each batch; all keys are equal."""
    batches = [table(KEYED, [(t, 1, int(t)) for t in times]) for times in seconds]
    streams = [
        ab.stream(name, file_stream(spark, home / name, batches), time="ts", window="1 hour")
        for name in "ab"
    ]
    return ab.join(*streams).on("a.k = b.k").select("a.id AS a", "b.id AS b")


def run_into(query: JoinQuery, sink: Any, checkpoint: Path | str, **options: Any) -> Run:
    run = query.start(sink, checkpoint=str(checkpoint), trigger="available now", **options)
    run.await_termination()
    return run


def pairs(count: int) -> Counter[tuple[Any, ...]]:
    """What a and b with ids up to a count give: every one meets every other."""
    return Counter((a, b) for a in range(count) for b in range(count))


@contextmanager
def failing_commit(monkeypatch: pytest.MonkeyPatch, batch: int) -> Iterator[None]:
    """Once a batch is delivered, it is not committed: its run ends there."""
    commit = Store.commit

    def cut_off(store: Store, manifest: Any, previous: Any) -> None:
        if manifest.batch == batch:
            raise OSError("the power fails")
        commit(store, manifest, previous)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "commit", cut_off)
        yield


def stamps(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in directory.rglob("*")}


def test_a_repeated_batch_stays_as_it_is_and_is_counted_all_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = pair(spark, tmp_path, [[t] for t in range(9)])
    # The last batch also merges the segments of the eight before: a repeat has to do so as well.
    with failing_commit(monkeypatch, 8), pytest.raises(Exception, match="the power fails"):
        finish(query, tmp_path)
    before = stamps(tmp_path / "out" / "batch=8")
    run = finish(query, tmp_path)
    assert stamps(tmp_path / "out" / "batch=8") == before
    assert delivered(spark, tmp_path) == pairs(9)
    progress = run.progress
    assert (progress["batches"], progress["results"], progress["results_total"]) == (9, 17, 81)
    assert progress["terms"]["a.k = b.k"]["matched"] == 81
    assert (progress["state_rows"], progress["segments"]) == (18, 4)
    assert len(list((tmp_path / "checkpoint" / "segments").rglob("*.seg"))) == 4


def test_a_second_query_on_the_same_path_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    query = pair(spark, tmp_path, [[0]])
    first = query.start(ab.parquet_sink(str(tmp_path / "out")), checkpoint=str(tmp_path / "one"))
    try:
        while first.progress["batches"] < 1:
            assert first.await_termination(timeout=0.1) is False
        for append, refused in ((False, "has results of checkpoint"), (True, "is in use by")):
            sink = ab.parquet_sink(str(tmp_path / "out"), append=append)
            with pytest.raises(ab.CheckpointError, match=refused):
                query.start(sink, checkpoint=str(tmp_path / "two"))
        assert first.is_active
    finally:
        first.stop()
    assert delivered(spark, tmp_path) == pairs(1)


def test_a_new_checkpoint_on_an_old_output_is_refused_or_appends(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = pair(spark, tmp_path, [[0], [1]])
    out, late = str(tmp_path / "out"), str(tmp_path / "late")
    run_into(query, ab.parquet_sink(out), tmp_path / "one", late=ab.parquet_sink(late))
    for options in ({}, {"late": ab.parquet_sink(late)}):
        with pytest.raises(ab.CheckpointError, match=f"{out} has results of checkpoint"):
            run_into(query, ab.parquet_sink(out), tmp_path / "two", **options)
    assert delivered(spark, tmp_path) == pairs(2)
    run_into(query, ab.parquet_sink(out, append=True), tmp_path / "two")
    read = spark.read.parquet(out)
    assert sorted(row["batch"] for row in read.select("batch").distinct().collect()) == [0, 1, 2, 3]
    assert counted(read.drop("batch").toArrow()) == pairs(2) + pairs(2)
    with pytest.raises(ab.CheckpointError, match="appended to by another"):
        run_into(query, ab.parquet_sink(out), tmp_path / "one")


def test_an_old_checkpoint_on_newer_output_and_a_lost_output_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = pair(spark, tmp_path, [[0]])
    finish(query, tmp_path)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "old")
    for batch in (1, 2):
        for name in "ab":
            write_file(tmp_path / name, batch, table(KEYED, [(batch, 1, batch)]))
    finish(query, tmp_path)
    sink = ab.parquet_sink(str(tmp_path / "out"))
    with pytest.raises(ab.CheckpointError, match="the checkpoint is older than its output"):
        run_into(query, sink, tmp_path / "old")
    assert delivered(spark, tmp_path) == pairs(3)

    # One batch ahead may be a batch under way, unless its rows are others.
    shutil.rmtree(tmp_path / "out" / "batch=2")
    write_file(tmp_path / "a", 1, table(KEYED, [(1, 1, 7), (1, 1, 8)]))
    (tmp_path / "a" / "0001.parquet").rename(tmp_path / "a" / "0001b.parquet")
    with pytest.raises(ab.CheckpointError, match="batch=1 holds other rows than batch 1"):
        run_into(query, sink, tmp_path / "old")

    shutil.rmtree(tmp_path / "out")
    with pytest.raises(ab.CheckpointError, match="does not have batch 2, the last"):
        run_into(query, sink, tmp_path / "checkpoint")
    assert not (tmp_path / "out").exists()


def test_late_rows_have_an_output_of_their_own_that_is_checked_alike(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = pair(spark, tmp_path, [[5], [9], [1], [2]])
    out = ab.parquet_sink(str(tmp_path / "out"))
    with pytest.raises(ab.QueryError, match="each needs a directory of its own"):
        run_into(query, out, tmp_path / "one", late=ab.parquet_sink(str(tmp_path / "x/../out")))
    assert not (tmp_path / "one").exists()
    late = ab.parquet_sink(str(tmp_path / "late"))
    with failing_commit(monkeypatch, 2), pytest.raises(Exception, match="the power fails"):
        run_into(query, out, tmp_path / "one", late=late)
    before = stamps(tmp_path / "late" / "batch=2")
    run_into(query, out, tmp_path / "one", late=late)
    assert stamps(tmp_path / "late" / "batch=2") == before
    times = Counter(row["batch"] for row in spark.read.parquet(late.path).collect())
    assert times == Counter({2: 2, 3: 2})
    with pytest.raises(ab.CheckpointError, match=f"{late.path} has results of checkpoint"):
        run_into(query, ab.parquet_sink(str(tmp_path / "out2")), tmp_path / "two", late=late)


def test_relative_paths_stay_where_they_were_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = pair(spark, tmp_path, [[0], [1]])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    sink = ab.parquet_sink("out")
    run = query.start(sink, checkpoint="checkpoint", trigger="available now")
    monkeypatch.chdir("elsewhere")
    run.await_termination()
    for name in "ab":
        write_file(tmp_path / name, 2, table(KEYED, [(2, 1, 2)]))
    run_into(query, sink, "../checkpoint")
    assert delivered(spark, tmp_path) == pairs(3)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_uri_with_an_escaped_blank_is_the_directory_with_the_blank(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = pair(spark, tmp_path, [[0]])
    sink = ab.parquet_sink(f"file://{tmp_path}/my%20out")
    run_into(query, sink, f"file://{tmp_path}/my%20checkpoint")
    write_file(tmp_path / "a", 1, table(KEYED, [(1, 1, 1)]))
    write_file(tmp_path / "b", 1, table(KEYED, [(1, 1, 1)]))
    run_into(query, ab.parquet_sink(str(tmp_path / "my out")), tmp_path / "my checkpoint")
    assert delivered(spark, tmp_path, "my out") == pairs(2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "my checkpoint", "my out"]


def test_a_function_around_the_sink_replaces_a_batch_and_owns_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    out = ab.parquet_sink(str(tmp_path / "out"))
    out(spark.range(3), 0)
    out(spark.range(5), 0)
    out(spark.range(2), 1)
    assert spark.read.parquet(out.path).count() == 7
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(ab.CheckpointError, match="has results of somebody unknown"):
        run_into(pair(spark, tmp_path, [[0]]), out, tmp_path / "checkpoint")
    owned = ab.parquet_sink(str(tmp_path / "owned"))
    run_into(pair(spark, tmp_path, [[0]]), owned, tmp_path / "one")
    with pytest.raises(ab.CheckpointError, match="a function sink has to write somewhere else"):
        owned(spark.range(1), 0)


def test_a_remote_batch_is_whole_when_it_is_sealed(spark: SparkSession, tmp_path: Path) -> None:
    # To the code this is a remote store: it has no rename that could be relied on.
    place = Place(tmp_path.as_uri() + "/out", None)
    output, _ = take(place, Claim("aa"))
    sink = OwnedSink("results", output, lambda batch: f"offsets of {batch}", None)
    sink(spark.range(3), 0)
    sink(spark.range(5), 1)
    sink(spark.range(9), 0)  # it is there, so nothing is written
    (tmp_path / "out" / "batch=1" / SEAL).unlink()
    sink(spark.range(7), 1)  # it was not whole
    assert spark.read.parquet(str(tmp_path / "out")).count() == 3 + 7
    with pytest.raises(ab.CheckpointError, match="has results of checkpoint aa"):
        take(place, Claim("bb"))
    appended, _ = take(place, Claim("bb", append=True))
    assert appended.name(0) == "batch=2"


def test_a_batch_that_fails_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    out = ab.parquet_sink(str(tmp_path / "out"))
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        out(spark.range(4).selectExpr("1 div (id - 3) AS x"), 0)
    assert list(tmp_path.iterdir()) == []


def test_the_recipe_of_the_readme_takes_a_repeated_batch_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    recipe = tmp_path / "recipe.py"
    recipe.write_text(next(block for block in blocks if "sqlite3" in block))
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(sqlite3.connect("results.db")) as database:
        database.execute("CREATE TABLE results (batch INTEGER, a INTEGER, b INTEGER)")
    names = {"query": pair(spark, tmp_path, [[0], [1]])}
    with failing_commit(monkeypatch, 1):
        run = runpy.run_path(str(recipe), names)["run"]
        with pytest.raises(Exception, match="the power fails"):
            run.await_termination()
    runpy.run_path(str(recipe), names)["run"].await_termination()
    with contextlib.closing(sqlite3.connect("results.db")) as database:
        assert Counter(database.execute("SELECT a, b FROM results")) == pairs(2)


class Reader:
    """Reads a directory again and again while it is written, by each of several plain means."""

    def __init__(self, *means: Callable[[], dict[int, int]]) -> None:
        self.means = means
        self.seen: list[dict[int, int]] = []
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._poll)

    def _poll(self) -> None:
        try:
            while not self.ended.is_set():
                self.seen += [read() for read in self.means]
        except BaseException as error:  # noqa: BLE001 - it is raised to who waits
            self.failure = error

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()
        if self.failure is not None:
            raise self.failure


def test_plain_readers_only_ever_see_whole_batches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [[t] for t in range(8)]
    query = pair(spark, tmp_path, batches)
    out = tmp_path / "out"

    def by_arrow() -> dict[int, int]:
        found = ds.dataset(out, format="parquet", partitioning="hive") if out.exists() else None
        return Counter() if not found or not found.files else _sizes(found.to_table(["batch"]))

    def by_duckdb() -> dict[int, int]:
        with duckdb.connect() as connection:
            try:
                read = connection.read_parquet(f"{out}/**/*.parquet", hive_partitioning=True)
                return _sizes(read.select("batch").to_arrow_table())
            except duckdb.IOException:
                return {}  # there is no file yet

    def by_spark() -> dict[int, int]:
        if not list(out.glob("batch=*")):
            return {}
        return _sizes(spark.read.parquet(str(out)).select("batch").toArrow())

    with Reader(by_arrow, by_duckdb, by_spark) as reader:
        for stop in (2, 5):
            with failing_commit(monkeypatch, stop), pytest.raises(Exception, match="power fails"):
                finish(query, tmp_path)
        finish(query, tmp_path)
    # Row t meets all that were there: 2 t + 1 results in batch t.
    whole = {t: 2 * t + 1 for t in range(8)}
    assert by_arrow() == whole
    assert len({len(seen) for seen in reader.seen}) > 3
    for before, after in zip([{}, *reader.seen], reader.seen, strict=False):
        assert after == {t: whole[t] for t in range(len(after))}
        assert len(after) >= len(before)


def _sizes(batches: Any) -> dict[int, int]:
    return dict(Counter(int(batch) for batch in batches["batch"].to_pylist()))


def test_a_column_that_the_number_of_the_batch_would_hide_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = pair(spark, tmp_path, [[0]])
    named = query.select("a.id AS Batch", "b.id AS b")
    with pytest.raises(ab.QueryError, match="another name with AS"):
        run_into(named, ab.parquet_sink(str(tmp_path / "out")), tmp_path / "checkpoint")
    taken: list[Any] = []
    run_into(named, lambda frame, _: taken.extend(frame.collect()), tmp_path / "checkpoint")
    assert taken == [(0, 0)]


@pytest.mark.parametrize(
    ("name", "role"), [("reason", "late"), ("Time", "late"), ("batch", "late"), ("stage", "dead")]
)
def test_a_stream_with_the_name_of_a_column_of_rows_set_aside_is_refused(
    spark: SparkSession, tmp_path: Path, name: str, role: str
) -> None:
    files = file_stream(spark, tmp_path / "a", [table(KEYED, [(0, 1, 1)])])
    streams = [ab.stream(stream, files, time="ts", window="1 second") for stream in (name, "b")]
    query = ab.join(*streams).on(f"{name}.k = b.k").select("b.id")
    aside: dict[str, Any] = {role: ab.parquet_sink(str(tmp_path / "aside"))}
    with pytest.raises(ab.QueryError, match="Give the stream another name"):
        run_into(query, ab.parquet_sink(str(tmp_path / "out")), tmp_path / "checkpoint", **aside)


def test_of_two_that_make_a_checkpoint_at_once_the_one_that_runs_has_its_id(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = pair(spark, tmp_path, [[0]])
    lock = Lock.take

    def after_the_other(files: Files, *what: str) -> Lock:
        """Another process, which had seen the directory empty too, has written its id."""
        if not what:
            files.delete(IDENTITY)
            Store(files).claim(query.description())
        return lock(files, *what)

    with monkeypatch.context() as patched:
        patched.setattr(Lock, "take", after_the_other)
        finish(query, tmp_path)
    finish(query, tmp_path)  # its output is its own
    assert delivered(spark, tmp_path) == pairs(1)
