"""A fault made small, and printed as lines that anybody can run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import SparkSession

from tests.fuzz.comparing import Finding, compare_one
from tests.fuzz.drawing import Case, Stream

TRIES = 60
"""Each runs both sides: a smaller case is not worth more."""


def minimised(spark: SparkSession, finding: Finding, tries: int = TRIES) -> Finding:
    """The smallest case found that ends as this one does."""
    again = compare_one(spark, replace(finding.case))
    if again.outcome != finding.outcome:
        return finding
    best, left = again, tries
    smaller = True
    while smaller and left:
        smaller = False
        for case in _smaller(best.case):
            if not left:
                break
            left -= 1
            tried = compare_one(spark, case)
            if tried.outcome == best.outcome:
                best, smaller = tried, True
                break
    return best


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with a part less, the largest parts first."""
    if case.strategy != "central":
        yield replace(case, strategy="central")
    for term in case.terms:
        if len(case.terms) > 1:
            yield replace(case, terms=tuple(other for other in case.terms if other is not term))
    for stream in case.streams:
        if len(case.streams) > 2 and not any(f"{stream.name}." in term for term in case.terms):
            yield replace(case, streams=tuple(s for s in case.streams if s is not stream))
    for stream in case.streams:
        unused = [c for c in stream.columns if not _names(case, stream, c.name)]
        if unused:
            yield _with(case, stream, _without_columns(stream, {c.name for c in unused}))
    for stream in case.streams:
        for part in (len(stream.rows) // 2, 1):
            for start in range(0, len(stream.rows), max(part, 1)):
                rows = stream.rows[:start] + stream.rows[start + part :]
                if part and rows:
                    yield _with(case, stream, replace(stream, rows=rows))


def _names(case: Case, stream: Stream, column: str) -> bool:
    return any(f"{stream.name}.{column}" in term for term in case.terms)


def _without_columns(stream: Stream, names: set[str]) -> Stream:
    kept = [at for at, column in enumerate(stream.columns) if column.name not in names]
    rows = tuple((*row[:2], *(row[2 + at] for at in kept)) for row in stream.rows)
    return replace(stream, columns=tuple(stream.columns[at] for at in kept), rows=rows)


def _with(case: Case, old: Stream, new: Stream) -> Case:
    return replace(case, streams=tuple(new if s is old else s for s in case.streams))


def lines(finding: Finding) -> str:
    """A program that shows the fault, with `spark` at hand."""
    case = finding.case
    told = [f"# {finding.outcome}: {finding.detail}", "import anabranch as ab"]
    told += [f"spark.conf.set({name!r}, {value!r})" for name, value in case.settings.items()]
    for stream in case.streams:
        told.append(
            f"{stream.name} = ab.stream({stream.name!r}, spark.sql({stream.sql!r}), "
            f"time='ts', window={stream.window!r})"
        )
    names = ", ".join(stream.name for stream in case.streams)
    terms = ", ".join(map(repr, case.terms))
    select = ", ".join(map(repr, case.select))
    told += [
        f"q = ab.join({names}).on({terms}).select({select})",
        f"q.to_df({case.strategy!r}).show()",
        "from tests.fuzz.oracle import spark_answer",
        f"spark_answer(q, [{terms}], [{select}]).show()",
    ]
    return "\n".join(told)
