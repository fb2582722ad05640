"""The tasks of a batch as DataFrames: what a sink is handed."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from anabranch.model.query import Query, StoredColumn
from anabranch.spark.aside import AsideTask, DeadTask
from anabranch.spark.envelope import spark_type
from anabranch.spark.selection import Finish
from anabranch.spark.tasks import PARCEL, HopTask, ShareTask, Work
from anabranch.state.manifest import Manifest
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


class Finisher:
    """Applies residues and the select. Columns are made once per run: each takes Spark time."""

    def __init__(self, finish: Finish) -> None:
        self._filters = finish.filters
        self._rows = [
            F.struct(*(F.expr(sql).alias(name) for name, sql in named)).alias(stream)
            for stream, named in finish.rows
        ]
        self._columns = [F.expr(sql).alias(name) for sql, name in finish.columns]

    def with_rows(self, frame: DataFrame) -> DataFrame:
        """Joined columns, and beside them a struct column per stream that the user's SQL needs."""
        return frame.select("*", *self._rows) if self._rows else frame

    def apply(self, frame: DataFrame) -> DataFrame:
        """Joined columns as the user selected them, where the residues of the condition hold."""
        frame = self.with_rows(frame)
        for condition in self._filters:
            frame = frame.filter(condition)
        return frame.select(*self._columns)


def joined(hosts: DataFrame, work: Work, schema: StructType) -> DataFrame:
    """The combinations that a batch adds, before the user's expressions are evaluated on them."""
    if work.plan.routes:
        return _hop_by_hop(hosts, work, schema)
    return hosts.mapInArrow(ShareTask(work), schema)


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
    """The rows that came too late, each in the struct column of its stream."""
    schema = _aside_schema(carried, stream=StringType(), reason=StringType(), time=TimestampType())
    names = tuple(stream.name for stream in carried.streams)
    return _rows_of(spark, AsideTask(store, names, tuple(refs), arrow_bytes(spark, schema)), schema)


def dead_rows(spark: SparkSession, store: Store, carried: Query, manifest: Manifest) -> DataFrame:
    """The rows that a batch set aside, each in the struct column of its stream."""
    schema = _aside_schema(
        carried,
        stream=StringType(),
        stage=StringType(),
        reason=StringType(),
        batch=IntegerType(),
        time=TimestampType(),
    )
    names = tuple(stream.name for stream in carried.streams)
    arrow = arrow_bytes(spark, schema)
    task = DeadTask(store, names, manifest.dead, arrow, manifest.batch)
    return _rows_of(spark, task, schema)


def _rows_of(spark: SparkSession, task: AsideTask, schema: StructType) -> DataFrame:
    return spark.range(1).coalesce(1).mapInArrow(task, schema)


def _aside_schema(carried: Query, **described: DataType) -> StructType:
    structs = [
        StructField(stream.name, _struct(columns))
        for stream, columns in zip(carried.streams, carried.stored, strict=True)
    ]
    return StructType([*(StructField(name, kind) for name, kind in described.items()), *structs])


def _struct(columns: Sequence[StoredColumn]) -> StructType:
    own = [column for column in columns if not column.name.startswith("#")]
    return StructType([StructField(column.name, spark_type(column.type)) for column in own])


def arrow_bytes(spark: SparkSession, schema: StructType) -> bytes:
    """The Arrow schema that Spark expects for a schema of its own, serialized for tasks."""
    timezone = spark.conf.get("spark.sql.session.timeZone")
    return bytes(to_arrow_schema(schema, timezone=timezone).serialize())
