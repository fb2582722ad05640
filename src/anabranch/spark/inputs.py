"""Inputs of a join: a DataFrame, its event time and its window."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from anabranch.errors import QueryError
from anabranch.model.duration import Duration, microseconds
from anabranch.model.query import Stream

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Input:
    """A stream of the join, and the DataFrame its rows come from."""

    spec: Stream
    frame: DataFrame

    @property
    def name(self) -> str:
        return self.spec.name


def stream(
    name: str,
    frame: DataFrame,
    *,
    time: str,
    window: Duration,
    lateness: Duration = "0 seconds",
    idle: Duration | None = None,
) -> Input:
    """Name a DataFrame, streaming or static, as an input of a join.

    A row meets rows of the other streams that are at most `window` younger than itself.
    `lateness` is how far behind the greatest time seen a row may come and still be joined.
    A stream that has nothing to give holds the watermark, and so the state of the other streams,
    back: results do not wait for it, but old rows are kept. With `idle`, the run goes on without
    the stream once it has waited for its rows for so long. Then rows that it brings later may be
    late, so that the answer depends on the clock on the wall. Default: None, wait for ever.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise QueryError(f"stream name {name!r}: use letters, digits and underscores, like orders")
    if not hasattr(frame, "schema") or not hasattr(frame, "isStreaming"):
        found = f"{type(frame).__module__.split('.')[0]}.{type(frame).__name__}"
        raise QueryError(
            f"stream {name}: {found} is not a DataFrame of Spark's; spark.createDataFrame(...) "
            "makes one of a pandas DataFrame or of rows"
        )
    matching = [column for column in frame.columns if column.lower() == str(time).lower()]
    if not matching:
        known = ", ".join(frame.columns)
        raise QueryError(f"stream {name}: there is no time column {time!r} (columns: {known})")
    kind = frame.schema[matching[0]].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType | DateType):
        raise QueryError(
            f"stream {name}: its time column {matching[0]} is of type {kind.simpleString()}; it "
            f"must be a timestamp (for seconds since 1970: timestamp_seconds({matching[0]}))"
        )
    idle_time = None if idle is None else microseconds(idle, f"stream {name}: idle")
    if idle_time == 0:
        raise QueryError(f"stream {name}: idle is 0; write how long to wait, like '1 minute'")
    spec = Stream(
        name,
        matching[0],
        microseconds(window, f"stream {name}: window"),
        microseconds(lateness, f"stream {name}: lateness"),
        idle_time,
    )
    return Input(spec, frame)
