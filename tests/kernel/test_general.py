"""SQL that DuckDB evaluates sees the rows that it is given, and nothing else."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from anabranch.errors import TermError
from anabranch.kernel.general import ExpressionKernel, _connection
from anabranch.model.query import Operand, Term
from anabranch.model.terms import Expression


def kernel(sql: str) -> ExpressionKernel:
    return ExpressionKernel(Term(sql, Expression(sql), (Operand(0, "x"), Operand(1, "x"))))


ROWS = [pa.array([1, 2]), pa.array([2, 2])]


def test_an_expression_is_evaluated_on_the_rows_that_it_is_given() -> None:
    assert kernel("c0 = c1").holds(ROWS).tolist() == [False, True]


@pytest.mark.parametrize(
    "reading",
    [
        "(SELECT count(*) FROM read_text('{path}')) > 0",
        "(SELECT count(*) FROM glob('{path}')) > 0",
        "(SELECT count(*) FROM read_csv('{path}')) > 0",
        "(SELECT count(*) FROM '{path}') > 0",
    ],
)
def test_an_expression_cannot_reach_a_file(tmp_path: Path, reading: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("secret\n")
    with pytest.raises(TermError, match="file system operations are disabled"):
        kernel(reading.format(path=file)).holds(ROWS)


@pytest.mark.parametrize(
    "statement",
    [
        "SET enable_external_access = true",
        "SET autoload_known_extensions = true",
        "INSTALL httpfs",
        "LOAD httpfs",
        "ATTACH '{path}'",
        "COPY (SELECT 1) TO '{path}'",
    ],
)
def test_the_connection_stays_closed(tmp_path: Path, statement: str) -> None:
    with pytest.raises(duckdb.Error, match=r"has been locked|disabled"):
        _connection().execute(statement.format(path=tmp_path / "out"))
    assert not (tmp_path / "out").exists()
