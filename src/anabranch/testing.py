"""Testing a join without streams: the slow, plain answer, to compare results with."""

from __future__ import annotations

import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.kernel.reference import reference as plain_answer
from anabranch.spark.builder import JoinQuery
from anabranch.spark.oracle import finished, stored_tables


def reference(query: JoinQuery) -> pa.Table:
    """The answer of a query over static inputs, by the definition, row by row: for small inputs.

    Columns are those selected. Rows without an event time take no part.
    """
    if any(source.frame.isStreaming for source in query.inputs):
        raise QueryError("the reference answer is computed over static inputs, not streams")
    return finished(query, plain_answer(query.compiled.query, stored_tables(query)))
