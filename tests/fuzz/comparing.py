"""Both sides of a case: our answer and Spark's, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.errors import AnabranchError
from anabranch.spark.analyzer import quiet
from anabranch.spark.builder import Joined
from tests.fuzz.drawing import Case
from tests.fuzz.oracle import Rows, counted, in_windows, spark_answer

LONGEST_MESSAGE = 1000
SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""Some functions of Spark let an exception of Java's through."""


@dataclass(frozen=True)
class Answer:
    """Rows, or why there are none."""

    rows: Rows | None
    error: BaseException | None = None

    @property
    def reason(self) -> str:
        return f"{type(self.error).__name__}: {str(self.error).strip()[:600]}"


@dataclass(frozen=True)
class Finding:
    """What became of a case: `same`, `both fail`, `spared`, or a fault of ours."""

    case: Case
    outcome: str
    detail: str = ""
    results: int | None = None
    """How many Spark found, where it answers."""

    @property
    def is_fault(self) -> bool:
        return self.outcome not in ("same", "both fail", "spared")


@dataclass
class Totals:
    """Counts over many cases."""

    outcomes: Counter[str] = field(default_factory=Counter)
    results: int = 0

    def add(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            self.outcomes[finding.outcome] += 1
            self.results += finding.results or 0

    def __str__(self) -> str:
        answered = self.outcomes["same"] or 1
        counts = ", ".join(f"{count} {name}" for name, count in self.outcomes.most_common())
        return f"{counts}; {self.results / answered:.1f} results per query that answers"


@contextmanager
def settings_of(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: str(spark.conf.get(name)) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def compare(spark: SparkSession, cases: Sequence[Case]) -> list[Finding]:
    """Run cases over the same streams and settings on both sides."""
    with settings_of(spark, cases[0].settings), quiet():
        joined = joined_streams(spark, cases[0])
        findings = [
            judged(case, spark_says, _ours(joined, case))
            for case, spark_says in zip(cases, _expected(joined, cases), strict=True)
        ]
        return [_in_any_order(joined, finding) for finding in findings]


def _in_any_order(joined: Joined, finding: Finding) -> Finding:
    """Terms have no order: where Spark fails on one of them alone, either side may."""
    case = finding.case
    if finding.outcome == "fails alone" and len(case.terms) > 1:
        parts = (_alone(joined, replace(case, terms=(term,))) for term in case.terms)
        if any(part.rows is None for part in parts):
            return replace(finding, outcome="spared", results=None)
    return finding


def joined_streams(spark: SparkSession, case: Case) -> Joined:
    return ab.join(
        *(
            ab.stream(stream.name, spark.sql(stream.sql), time="ts", window=stream.window)
            for stream in case.streams
        )
    )


def judged(case: Case, spark_says: Answer, ours: Answer) -> Finding:
    if spark_says.rows is None:
        if ours.rows is None:
            return Finding(case, "both fail" if _is_clear(ours) else "unclear", ours.reason)
        # Spark may meet an error on rows that other conditions, or an index, leave out here.
        alone = len(case.terms) == 1 and not any(word in case.terms[0] for word in _CONNECTORS)
        return Finding(case, "answers alone" if alone else "spared", spark_says.reason)
    results = spark_says.rows.total()
    if ours.rows is None:
        return Finding(case, "fails alone", ours.reason, results)
    if ours.rows == spark_says.rows:
        return Finding(case, "same", "", results)
    missing, extra = spark_says.rows - ours.rows, ours.rows - spark_says.rows
    detail = f"missing {_short(missing)}, not in Spark's answer {_short(extra)}"
    return Finding(case, "different", detail, results)


_CONNECTORS = (" AND ", " OR ", "CASE", "if(", "coalesce", "nvl", " IN ")


def _short(rows: Rows) -> str:
    return f"{rows.total()} {list(rows)[:3]}"


def _is_clear(answer: Answer) -> bool:
    error = answer.error
    if isinstance(error, AnabranchError):
        return len(str(error)) <= LONGEST_MESSAGE
    if isinstance(error, PythonException):  # a worker raised it: ours has a name, others are raw
        return "TermError" in str(error)
    return isinstance(error, SPARK_ERRORS)


def _ours(joined: Joined, case: Case) -> Answer:
    try:
        query = joined.on(*case.terms).select(*case.select)
        # Hashing takes one key for all streams.
        possible = case.strategy != "hash" or query.compiled.query.key is not None
        return Answer(counted(query.to_df(case.strategy if possible else "auto")))
    except Exception as error:  # noqa: BLE001 - what kind of error it is, is what is looked at
        return Answer(None, error)


def _expected(joined: Joined, cases: Sequence[Case]) -> list[Answer]:
    """Spark's answers: all in one job, or one by one if any of them fails."""
    conditions = [" AND ".join(f"({term})" for term in case.terms) for case in cases]
    rows = in_windows(joined.inputs)
    known = [_refusal(rows, condition) for condition in conditions]
    columns = [
        F.expr(condition).alias(f"c{at}")
        for at, condition in enumerate(conditions)
        if known[at] is None
    ]
    try:
        found = rows.select(*map(F.expr, cases[0].select), *columns).collect()
    except SPARK_ERRORS:
        return [
            _alone(joined, case) if error is None else Answer(None, error)
            for case, error in zip(cases, known, strict=True)
        ]
    streams = len(cases[0].streams)
    return [
        Answer(Counter(_ids(row[:streams]) for row in found if row[f"c{at}"]))
        if error is None
        else Answer(None, error)
        for at, error in enumerate(known)
    ]


def _ids(ids: Sequence[int]) -> str:
    return "(" + ", ".join(map(repr, ids)) + ")"


def _refusal(rows: DataFrame, condition: str) -> BaseException | None:
    try:
        rows.filter(F.expr(condition))
    except SPARK_ERRORS as error:
        return error
    return None


def _alone(joined: Joined, case: Case) -> Answer:
    try:
        return Answer(counted(spark_answer(joined, case.terms, case.select)))
    except SPARK_ERRORS as error:
        return Answer(None, error)


def compare_one(spark: SparkSession, case: Case) -> Finding:
    """One case, with Spark's own batch join as the other side."""
    with settings_of(spark, case.settings), quiet():
        joined = joined_streams(spark, case)
        return _in_any_order(joined, judged(case, _alone(joined, case), _ours(joined, case)))
