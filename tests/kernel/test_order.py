"""The probe order follows what was measured."""

from __future__ import annotations

from anabranch.kernel.order import steps
from anabranch.model.query import Operand, Query, StoredColumn, Stream, Term
from anabranch.model.terms import Band, Equal, Expression

STREAMS = tuple(Stream(name, "ts", 10, 0, 10) for name in "abc")
STORED = ((StoredColumn("x", "x", '"double"'),),) * 3
AB = Term("ab", Band(1), (Operand(0, "x"), Operand(1, "x")))
AC = Term("ac", Band(1), (Operand(0, "x"), Operand(2, "x")))
BC = Term("bc", Equal(), (Operand(1, "x"), Operand(2, "x")))
ALL = Term("abc", Expression("c0 + c1 > c2"), tuple(Operand(s, "x") for s in range(3)))
QUERY = Query(STREAMS, STORED, ((),) * 3, (AB, AC, BC, ALL), ())


def test_the_most_selective_term_goes_first() -> None:
    order = steps(QUERY, 0, [100, 100, 100], {0: 0.5, 1: 0.01})
    assert [step.stream for step in order] == [2, 1]
    order = steps(QUERY, 0, [100, 100, 100], {0: 0.01, 1: 0.5})
    assert [step.stream for step in order] == [1, 2]


def test_a_short_stream_goes_first() -> None:
    order = steps(QUERY, 0, [100, 100_000, 10], {0: 0.1, 1: 0.1})
    assert [step.stream for step in order] == [2, 1]


def test_the_best_index_proposes_and_every_term_is_decided_once() -> None:
    order = steps(QUERY, 0, [100, 100, 100], {0: 0.01, 1: 0.5, 2: 0.001})
    assert order[0].index == 0
    assert order[1].index == 2
    assert sorted(position for step in order for position in step.checks) == [0, 1, 2, 3]


def test_a_stream_without_an_indexed_term_is_reached_by_time_alone() -> None:
    query = Query(STREAMS, STORED, ((),) * 3, (AB, ALL), ())
    assert steps(query, 0, [1, 1, 1])[1].index is None
