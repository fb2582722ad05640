"""How SQL is taken apart."""

from __future__ import annotations

from decimal import Decimal

import pytest

from anabranch.errors import QueryError
from anabranch.model.portable import duckdb_sql
from anabranch.model.sql import Filter, Scope, Spanning
from anabranch.model.terms import Band, Equal, Interval, Request

SCOPE = Scope(("a", "b", "c"))


def pieces_of(text: str) -> list[Filter | Request | Spanning]:
    return SCOPE.condition(SCOPE.conjuncts(text))


def test_conjuncts_are_split_and_recognised() -> None:
    pieces = pieces_of("a.k = b.k AND (a.x > 5 AND abs(a.x - b.x) < 0.5)")
    assert pieces == [
        Request("a.k = b.k", Equal(), ("a.k", "b.k")),
        Filter("a.x > 5", 0, "a.x > 5"),
        Request("abs(a.x - b.x) < 0.5", Band(Decimal("0.5"), strict=True), ("a.x", "b.x")),
    ]


@pytest.mark.parametrize(
    ("text", "strict"),
    [
        ("b.v BETWEEN a.lo AND a.hi", (False, False)),
        ("a.lo < b.v AND b.v <= a.hi", (True, False)),
        ("b.v < a.hi AND b.v >= a.lo", (False, True)),
        ("a.hi > b.v AND a.lo < b.v", (True, True)),
    ],
)
def test_two_bounds_on_one_value_become_an_interval(text: str, strict: tuple[bool, bool]) -> None:
    (piece,) = pieces_of(text)
    assert isinstance(piece, Request)
    assert piece.kind == Interval(True, True, *strict)
    assert piece.operands == ("b.v", "a.lo", "a.hi")


def test_bounds_of_different_streams_stay_apart() -> None:
    pieces = pieces_of("b.v BETWEEN a.lo AND c.hi")
    assert [type(piece) for piece in pieces] == [Request, Request]


def test_the_largest_parts_of_one_stream_become_operands() -> None:
    (piece,) = pieces_of("(a.k + 1) * b.k = c.k * b.k")
    assert isinstance(piece, Spanning)
    assert piece.operands == ("(a.k + 1)", "b.k", "c.k")
    assert piece.node.sql() == "c0 * c1 = c2 * c1"


def test_in_a_branch_only_what_cannot_fail_becomes_an_operand() -> None:
    (piece,) = pieces_of("lower(a.n || 'x') = b.n OR a.k + 1 = c.k * b.k")
    assert isinstance(piece, Spanning)
    assert piece.operands == ("LOWER(a.n || 'x')", "b.n", "a.k", "c.k", "b.k")
    assert piece.node.sql() == "c0 = c1 OR c2 + 1 = c3 * c4"


@pytest.mark.parametrize(
    ("text", "portable"),
    [
        ("a.x + b.x > c.x", True),
        ("a.k = b.k OR NOT a.x < b.x", True),
        ("a.s LIKE b.s", False),
        ("concat(a.s, b.s) = c.s", False),
        ("levenshtein(a.s, b.s) < 3", False),
        ("CAST(a.x + b.x AS INT) = 3", False),
    ],
)
def test_only_what_means_the_same_goes_to_duckdb(text: str, *, portable: bool) -> None:
    (piece,) = pieces_of(text)
    assert isinstance(piece, Spanning)
    types = ["string" if ".s" in sql else "double" for sql in piece.operands]
    assert (duckdb_sql(piece.node, types, ansi=True) is not None) == portable


def test_nested_fields_belong_to_the_stream_they_begin_with() -> None:
    (piece,) = pieces_of("a.s.t.u = B.m['x']")
    assert isinstance(piece, Request)
    assert SCOPE.operand(piece.operands[0])[0] == 0
    assert SCOPE.operand(piece.operands[1])[0] == 1


def test_an_operand_of_two_streams_is_refused() -> None:
    with pytest.raises(QueryError, match="touches 2 streams"):
        SCOPE.operand("a.x + b.x")
