"""Spark's analyzer as the judge of an expression: its type, and whether a repeat gives the same.

It never sees more than an empty DataFrame with one struct column per stream, so that
`orders.user_id` means the same as in the user's SQL. The expression is looked at inside
`first(...)`: Spark refuses an aggregate over what it calls non-deterministic, so that one analysis
answers both questions. No job runs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import sqlglot
from pyspark.errors import AnalysisException, ParseException
from pyspark.logger import PySparkLogger
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType
from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.model.sql import DIALECT
from anabranch.model.stability import CHANGES, MOMENT, moments, reads_moment, short, unstable
from anabranch.spark.inputs import Input

_UNSTABLE = "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"
# Spark's own words for these are about the `first(...)` around them, which the user did not write.
_NOT_OF_ONE_ROW = {
    "NESTED_AGGREGATE_FUNCTION": "has an aggregate; write an expression over single rows",
    "UNSUPPORTED_GENERATOR": "makes several rows of one; do that to the input DataFrame",
}


@contextmanager
def quiet() -> Iterator[None]:
    """Refused analyses are not logged: pyspark would log each with its Java stack."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"
CASE = "spark.sql.caseSensitive"
"""Settings that are part of what SQL means."""


class Analyzer:
    """Answers for expressions over the given streams; each is analyzed once."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        fields = [StructField(source.name, source.frame.schema) for source in inputs]
        spark = inputs[0].frame.sparkSession
        self._empty = spark.createDataFrame([], StructType(fields))
        for field in fields:
            self._check_name(field)
        listed = "; ".join(f"{s.name}: {', '.join(s.frame.columns)}" for s in inputs)
        self._columns = f"Columns there are: {short(listed)}"
        self._types: dict[str, DataType] = {}
        self.settings = {name: str(spark.conf.get(name)) for name in (ZONE, ANSI, CASE)}
        self.ansi = self.settings[ANSI] == "true"
        self.case_sensitive = self.settings[CASE] == "true"

    def type_of(self, sql: str, text: str) -> DataType:
        """The type of a part of `text`; QueryError if it is wrong, or may change in a repeat."""
        if sql not in self._types:
            with quiet():
                self._types[sql] = self._judge(sql, text)
        return self._types[sql]

    def _check_name(self, field: StructField) -> None:
        """Refuse a stream whose name means something else in SQL, as `null` and `true` do."""
        try:
            known = self._empty.selectExpr(field.name).schema[0].dataType == field.dataType
        except (AnalysisException, ParseException):
            known = False
        if not known:
            raise QueryError(
                f"stream {field.name}: the name means something else in SQL; choose another"
            )

    def accepts(self, sql: str) -> bool:
        """Whether Spark understands an expression."""
        return not self._fails(sql)

    def name_of(self, text: str) -> str:
        """The name that a selected expression gets."""
        return self._empty.selectExpr(text).columns[0]

    def same(self, one: str, other: str) -> bool:
        """Whether two expressions mean the same to Spark: implied conversions included."""
        try:
            plans = [self._empty.select(F.expr(sql).alias("it")) for sql in (one, other)]
            return bool(plans[0].sameSemantics(plans[1]))
        except (AnalysisException, ParseException):
            return False

    def _judge(self, sql: str, text: str) -> DataType:
        try:
            kind = self._analyze(sql)
        except (AnalysisException, ParseException) as error:
            raise self._refusal(error, sql, text) from None
        if MOMENT.search(sql):
            self._refuse_moments(sql, text)
        return kind

    def _analyze(self, sql: str) -> DataType:
        return self._empty.select(F.first(F.expr(sql))).schema[0].dataType

    def _refusal(self, error: AnalysisException, sql: str, text: str) -> QueryError:
        condition = error.getCondition() or ""
        if condition == _UNSTABLE:
            return unstable(text, f"calls {self._smallest_unstable(sql)}, which {CHANGES}")
        words = _NOT_OF_ONE_ROW.get(condition.split(".")[0])
        if words is not None:
            return QueryError(f'"{short(text)}" {words}')
        reason = str(error).split("SQLSTATE")[0].strip().rstrip(";").strip()
        if isinstance(error, ParseException):
            return QueryError(f'"{short(text)}" is not a SQL expression: {short(reason)}')
        return QueryError(f'"{short(text)}": {short(reason)}. {self._columns}')

    def _smallest_unstable(self, sql: str) -> str:
        calls = list(sqlglot.parse_one(sql, read=DIALECT).find_all(exp.Func))
        for call in reversed(calls):
            part = call.sql(dialect=DIALECT)
            if self._fails(part, _UNSTABLE):
                return part
        return sql

    def _refuse_moments(self, sql: str, text: str) -> None:
        """Strings such as 'today', where Spark casts them to a time without being told to.

        It does so where a time would do in their place, and a number would not: that it casts to
        a string, but not to a time.
        """
        node = sqlglot.parse_one(sql, read=DIALECT)
        for literal in list(moments(node)):
            place = literal
            failed = []
            for other in ("DATE'1970-01-01'", "1"):
                place = place.replace(sqlglot.parse_one(other, read=DIALECT))
                failed.append(self._fails(node.sql(dialect=DIALECT)))
            place.replace(literal)
            if failed == [False, True]:
                raise reads_moment(text, literal)

    def _fails(self, sql: str, condition: str | None = None) -> bool:
        try:
            self._analyze(sql)
        except AnalysisException as error:
            return condition is None or error.getCondition() == condition
        return False
