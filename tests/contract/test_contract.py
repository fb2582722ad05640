"""The main test of the system: every way to run a query delivers the same multiset of results."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, event, given, settings
from pyspark.sql import SparkSession

import anabranch as ab
from tests.contract import running
from tests.contract.drawing import Case, cases
from tests.streams import counted

slow = settings(
    max_examples=15,
    suppress_health_check=list(HealthCheck),  # an example is a Spark job or two, never quick
)


@slow
@given(case=cases())
def test_every_strategy_gives_the_reference_answer(spark: SparkSession, case: Case) -> None:
    joined = running.static(spark, case)
    expected = counted(ab.testing.reference(joined))
    event(f"streams: {case.streams}, results: {'some' if expected else 'none'}")
    for strategy in running.strategies(joined):
        assert counted(joined.to_df(strategy).toArrow()) == expected, strategy
    assert running.by_kernel(case, joined) == expected
    if case.is_sql:
        event("compared with Spark SQL")
        assert running.by_spark_sql(case, joined) == expected


@settings(slow, max_examples=6)
@given(case=cases(most_batches=3))
def test_streams_give_the_reference_answer_of_their_timely_rows(
    spark: SparkSession, case: Case
) -> None:
    directory = Path(tempfile.mkdtemp())
    try:
        joined = running.streaming(spark, case, directory / "in")
        on_time, late = running.timely(case)
        expected = counted(ab.testing.reference(running.static(spark, on_time)))
        for strategy in running.strategies(joined):
            output, checkpoint = str(directory / f"out-{strategy}"), str(directory / strategy)
            run = joined.start(
                ab.parquet_sink(output),
                checkpoint=checkpoint,
                strategy=strategy,
                trigger="available now",
            )
            run.await_termination()
            results = spark.read.parquet(output).drop("batch")
            assert counted(results.toArrow()) == expected, strategy
            streams = run.progress["streams"].values()
            if not any(stream["filtered"] for stream in streams):
                assert [stream["late"] for stream in streams] == late
    finally:
        shutil.rmtree(directory)
