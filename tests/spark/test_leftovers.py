"""What a long run leaves behind under its checkpoint: what is live, and nothing else."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.state.store import Store
from tests.streams import KEYED, file_stream, table


def test_a_sink_that_evaluates_its_frame_twice_leaves_no_segments_behind(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [table(KEYED, [(number, number, number)]) for number in range(12)]
    a, b = (
        ab.stream(name, file_stream(spark, tmp_path / name, batches), time="ts", window="1 hour")
        for name in "ab"
    )
    seen: list[int] = []

    def twice(frame: DataFrame, _batch: int) -> None:
        assert frame.count() == frame.count()
        seen.append(frame.count())

    checkpoint = str(tmp_path / "checkpoint")
    query = ab.join(a, b).on("a.k = b.k").select("a.id")
    run = query.start(twice, checkpoint=checkpoint, strategy="central", trigger="available now")
    run.await_termination()

    store = Store.at(checkpoint)
    latest = store.latest()
    assert latest is not None
    assert sum(seen) == 12
    assert any("-merged-" in path for path in latest.paths()), "or there was nothing to leave"
    assert set(store.files.names("segments")) == latest.paths()
    assert store.files.names("reports") == []
