"""The tasks of a batch as DataFrames: what a sink is handed."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from anabranch.model.query import Query, StoredColumn
from anabranch.spark.analysis import Finish
from anabranch.spark.envelope import spark_type
from anabranch.spark.tasks import PARCEL, HopTask, LateTask, ShareTask, Work
from anabranch.state.segment import SegmentRef
from anabranch.state.store import Store


class HostFrames:
    """One row a host, and no more partitions than slots; kept, so that a host stays put."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._kept: dict[int, DataFrame] = {}

    def of(self, spark: SparkSession, hosts: int) -> DataFrame:
        if hosts not in self._kept:
            self._kept[hosts] = spark.range(0, hosts, 1, min(hosts, self._slots)).persist()
        return self._kept[hosts]


def selected(finish: Finish) -> list[Column]:
    """The user's select. Made once a run: every column takes Spark milliseconds to make."""
    return [F.expr(sql).alias(name) for sql, name in finish.columns]


def joined(
    hosts: DataFrame,
    work: Work,
    schema: StructType,
    filters: Sequence[str],
    columns: Sequence[Column],
) -> DataFrame:
    """The results of a batch, as the user selected them."""
    if work.plan.routes:
        frame = _hop_by_hop(hosts, work, schema)
    else:
        frame = hosts.mapInArrow(ShareTask(work), schema)
    for condition in filters:
        frame = frame.filter(condition)
    return frame.select(*columns)


def _hop_by_hop(hosts: DataFrame, work: Work, schema: StructType) -> DataFrame:
    """One stage a hop, all of them in one job: parcels go from stage to stage by shuffle."""
    frame, last = hosts, work.plan.hops - 1
    for hop in range(last):
        frame = frame.mapInArrow(HopTask(work, hop), from_arrow_schema(PARCEL))
        frame = frame.repartitionById(work.places, F.col("place"))
    return frame.mapInArrow(HopTask(work, last), schema)


def result_schema(query: Query) -> StructType:
    """The columns that tasks put out, before the user's expressions are evaluated on them."""
    stored = [{column.name: column for column in columns} for columns in query.stored]
    return StructType(
        [
            StructField(
                output.name, spark_type(stored[output.operand.stream][output.operand.column].type)
            )
            for output in query.outputs
        ]
    )


def late_rows(
    spark: SparkSession, store: Store, carried: Query, refs: Sequence[SegmentRef]
) -> DataFrame:
    """The rows that were set aside, each in the struct column of its stream."""
    structs = [
        StructField(stream.name, _struct(columns))
        for stream, columns in zip(carried.streams, carried.stored, strict=True)
    ]
    described = [StructField("stream", StringType()), StructField("reason", StringType())]
    schema = StructType([*described, StructField("time", TimestampType()), *structs])
    names = tuple(stream.name for stream in carried.streams)
    task = LateTask(store, names, tuple(refs), arrow_bytes(spark, schema))
    return spark.range(1).coalesce(1).mapInArrow(task, schema)


def _struct(columns: Sequence[StoredColumn]) -> StructType:
    own = [column for column in columns if not column.name.startswith("#")]
    return StructType([StructField(column.name, spark_type(column.type)) for column in own])


def arrow_bytes(spark: SparkSession, schema: StructType) -> bytes:
    """The Arrow schema that Spark expects for a schema of its own, serialized for tasks."""
    timezone = spark.conf.get("spark.sql.session.timeZone")
    return bytes(to_arrow_schema(schema, timezone=timezone).serialize())
