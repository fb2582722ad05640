"""The limit: the kernels over the same files in one process, without Spark.

Reading the files is part of it, as it is for the other sides; planning, shuffling, checkpoints
and the way of the results into the JVM are what it does without. BLAS may use all cores.
"""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.bench.cases import Case
from anabranch.bench.child import Assignment
from anabranch.bench.measure import Batch
from anabranch.bench.reporting import Reporter
from anabranch.kernel.local import LocalJoin
from anabranch.model.query import TIME, Operand, Output, Query, StoredColumn, Stream, Term

MICROSECONDS = 1_000_000


def run(task: Assignment, to: Reporter) -> None:
    """Run it over all files and report each batch."""
    case, files = task.chosen, task.files
    join = LocalJoin(compiled(case))
    to.start()
    for number, rows in enumerate(case.batches(files)):
        begin, clock = time.time(), time.perf_counter()
        seconds = range(number * files, min((number + 1) * files, len(case.rows)))
        tables = [_read(Path(task.data) / feed.name, seconds) for feed in case.feeds]
        results = sum(found.num_rows for found in join.push(tables))
        took = time.perf_counter() - clock
        to.batch(Batch(number, rows, begin, took, results, state_rows=join.live_rows))


def compiled(case: Case) -> Query:
    """The case's query as the kernels take it: every column is stored as it is in the file."""
    names = [feed.name for feed in case.feeds]

    def operand(text: str) -> Operand:
        name, column = text.split(".")
        return Operand(names.index(name), column)

    terms = tuple(
        Term(request.text, request.kind, tuple(map(operand, request.operands)))
        for request in case.terms
    )
    window, lateness = case.window * MICROSECONDS, MICROSECONDS
    return Query(
        streams=tuple(Stream(name, "ts", window, lateness) for name in names),
        stored=tuple(
            (
                StoredColumn("id", "id", "bigint"),
                *(StoredColumn(name, name, column.sql_type) for name, column in feed.columns),
            )
            for feed in case.feeds
        ),
        filters=tuple(() for _ in names),
        terms=terms,
        outputs=tuple(Output(f"{name}_id", Operand(at, "id")) for at, name in enumerate(names)),
    )


def _read(directory: Path, seconds: range) -> pa.Table:
    tables = [pq.read_table(directory / f"{second:05d}.parquet") for second in seconds]
    table = pa.concat_tables(tables)
    times = pc.cast(table["ts"], pa.int64())
    return table.drop_columns(["ts"]).append_column(TIME, times)
