"""Rows that a term cannot handle: which of them is to blame, and what the others give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import TermError
from anabranch.kernel import general, poison
from anabranch.kernel.block import Block, build
from anabranch.kernel.order import steps
from anabranch.kernel.poison import Poison
from anabranch.kernel.probe import Join
from anabranch.model.query import TIME, Operand, Output, Query, StoredColumn, Stream, Term
from anabranch.model.terms import Expression, Match, Within

HOUR = 3_600_000_000
DOUBLES = pa.list_(pa.float64())


def query(kind: Any, column: str, type_: str) -> Query:
    stored = (StoredColumn(column, f"s.{column}", type_), StoredColumn("id", "s.id", '"long"'))
    return Query(
        tuple(Stream(name, "ts", HOUR, 0, None) for name in "ab"),
        (stored, stored),
        ((), ()),
        (Term("the term", kind, (Operand(0, column), Operand(1, column))),),
        tuple(Output(f"o{s}", Operand(s, "id")) for s in (0, 1)),
    )


def block(asked: Query, stream: int, values: Sequence[Any], kind: pa.DataType, name: str) -> Block:
    """Rows with these values, one per second; a row's id is its number."""
    numbers = np.arange(len(values))
    columns = {
        TIME: pa.array(numbers * 1_000_000),
        asked.stored[stream][0].name: pa.array(values, kind),
        "id": pa.array(numbers),
    }
    return replace(build(asked, stream, pa.table(columns)), name=name)


def run(
    asked: Query, left: Block, right: Block, *, aside: bool = True
) -> tuple[list[tuple[int, int]], dict[tuple[str, int], str]]:
    """The pairs of ids that match, and the rows that are set aside."""
    blocks = [[left], [right]]
    watch = Poison(asked, lambda stream: blocks[stream], aside)
    orders = [steps(asked, start, [len(left), len(right)]) for start in (0, 1)]
    results = Join(asked, orders, poison=watch).run([[], []], blocks)
    pairs = [(r["o0"], r["o1"]) for batch in results for r in batch.to_pylist()]
    return sorted(pairs), {(name, row): why for (_, name, row), why in watch.dead.items()}


def below(limit: float) -> Any:
    def near(left: Any, right: Any) -> Any:
        if (left >= limit).any() or (right >= limit).any():
            raise ValueError("too large")
        return np.abs(left - right) <= 1

    return near


def test_of_vectors_of_unequal_length_the_odd_one_out_is_set_aside() -> None:
    asked = query(Within(1), "v", '"array"')
    good = [[float(i), 0.0] for i in range(20)]
    odd = block(asked, 0, [*good[:10], [1.0, 2.0, 3.0], *good[10:]], DOUBLES, "left")
    pairs, dead = run(asked, odd, block(asked, 1, good, DOUBLES, "right"))
    assert list(dead) == [("left", 10)]
    assert "the term: vectors of 2 and 3 elements cannot be compared" in dead["left", 10]
    kept = [*range(10), *range(11, 21)]
    rank = {number: value for value, number in enumerate(kept)}
    assert pairs == [(i, j) for i in kept for j in range(20) if abs(rank[i] - j) <= 1]


def test_a_row_that_a_function_cannot_handle_is_set_aside_once_however_many_it_meets() -> None:
    asked = query(Match(below(100)), "x", '"double"')
    values = [float(i % 7) for i in range(300)]
    left = block(asked, 0, [*values, 500.0, *values], pa.float64(), "left")
    right = block(asked, 1, values, pa.float64(), "right")
    pairs, dead = run(asked, left, right)
    assert list(dead) == [("left", 300)]
    assert "it raised ValueError: too large" in dead["left", 300]
    kept = [i for i in range(601) if i != 300]
    number = [*values, 0.0, *values]
    assert pairs == [(i, j) for i in kept for j in range(300) if abs(number[i] - values[j]) <= 1]


def test_two_rows_that_fail_only_with_each_other_cost_one_row_the_younger() -> None:
    def picky(left: Any, right: Any) -> Any:
        if ((left == 3) & (right == 1)).any():
            raise ValueError("not these two")
        return np.ones(len(left), np.bool_)

    asked = query(Match(picky), "x", '"double"')
    left, right = (block(asked, s, [0.0, 1.0, 2.0, 3.0], pa.float64(), "ab"[s]) for s in (0, 1))
    pairs, dead = run(asked, left, right)
    assert list(dead) == [("a", 3)]
    assert {(i, j) for i in range(3) for j in range(4)} <= set(pairs)
    assert (3, 1) not in pairs


def test_a_term_over_three_streams_blames_the_row_that_fails_with_all_the_others() -> None:
    def together(a: Any, b: Any, c: Any) -> Any:
        if (np.maximum(np.maximum(a, b), c) >= 100).any():
            raise ValueError("too large")
        return a + b + c == 3

    two = query(Match(together), "x", '"double"')
    asked = replace(
        two,
        streams=(*two.streams, Stream("c", "ts", HOUR, 0, None)),
        stored=(*two.stored, two.stored[0]),
        filters=((), (), ()),
        terms=(Term("the term", Match(together), tuple(Operand(s, "x") for s in range(3))),),
        outputs=tuple(Output(f"o{s}", Operand(s, "id")) for s in range(3)),
    )
    values = [[1.0, 2.0, 0.0], [1.0, 500.0, 2.0], [0.0, 1.0, 2.0]]
    blocks = [[block(asked, s, values[s], pa.float64(), "abc"[s])] for s in range(3)]
    watch = Poison(asked, lambda stream: blocks[stream], aside=True)
    orders = [steps(asked, start, [3, 3, 3]) for start in range(3)]
    results = Join(asked, orders, poison=watch).run([[], [], []], blocks)
    found = [tuple(row.values()) for batch in results for row in batch.to_pylist()]
    assert list(watch.dead) == [(1, "b", 1)]
    assert sorted(found) == [
        (i, j, k)
        for i in range(3)
        for j in (0, 2)
        for k in range(3)
        if values[0][i] + values[1][j] + values[2][k] == 3
    ]


def test_many_rows_at_fault_are_all_found() -> None:
    asked = query(Match(below(100)), "x", '"double"')
    values = [500.0 if i % 9 == 4 else 0.0 for i in range(100)]
    left, right = (block(asked, s, values, pa.float64(), "ab"[s]) for s in (0, 1))
    pairs, dead = run(asked, left, right)
    good = [i for i in range(100) if i % 9 != 4]
    assert sorted(dead) == [(name, i) for name in "ab" for i in range(100) if i % 9 == 4]
    assert pairs == [(i, j) for i in good for j in good]


def test_without_a_place_for_it_the_row_is_raised_by_name() -> None:
    asked = query(Match(below(100)), "x", '"double"')
    left = block(asked, 0, [1.0, 2.0, 500.0], pa.float64(), "left")
    right = block(asked, 1, [1.0, 2.0, 3.0], pa.float64(), "right")
    with pytest.raises(TermError) as failure:
        run(asked, left, right, aside=False)
    text = str(failure.value)
    assert "term the term: it raised ValueError: too large" in text
    assert "The row is of a at 1970-01-01T00:00:02.000000Z (x=500.0, id=2)" in text
    assert len(text) <= 1000


def test_messages_stay_short_whatever_is_in_the_rows() -> None:
    def shouting(_left: Any, _right: Any) -> Any:
        raise ValueError("no! " * 5000)

    asked = query(Match(shouting), "x", '"string"')
    left, right = (block(asked, s, ["y" * 5000], pa.string(), "ab"[s]) for s in (0, 1))
    with pytest.raises(TermError) as failure:
        run(asked, left, right, aside=False)
    assert len(str(failure.value)) <= 1000
    assert "The row is of b" in str(failure.value)


def test_a_function_that_returns_nonsense_is_wrong_itself_and_no_row_is_blamed() -> None:
    asked = query(Match(lambda left, right: left + right), "x", '"double"')
    left, right = (block(asked, s, [0.0, 1.0], pa.float64(), "ab"[s]) for s in (0, 1))
    with pytest.raises(TermError, match="it returned float64 values"):
        run(asked, left, right)


def test_where_most_rows_fail_the_run_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poison, "MOST", 5)
    asked = query(Match(below(0)), "x", '"double"')
    left, right = (block(asked, s, [1.0] * 20, pa.float64(), "ab"[s]) for s in (0, 1))
    with pytest.raises(TermError, match="More than 5 rows of one batch are set aside"):
        run(asked, left, right)


def test_sql_that_fails_on_a_value_blames_the_row_that_has_it() -> None:
    asked = query(Expression("c0 + c1 > 5"), "x", '"long"')
    left = block(asked, 0, [4, 2**63 - 1, 3], pa.int64(), "left")
    right = block(asked, 1, [2, 3], pa.int64(), "right")
    pairs, dead = run(asked, left, right)
    assert list(dead) == [("left", 1)]
    assert "Overflow" in dead["left", 1]
    assert pairs == [(0, 0), (0, 1), (2, 1)]


def test_rows_without_fault_are_decided_as_often_with_a_place_for_others_as_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = query(Match(below(100)), "x", '"double"')
    left, right = (block(asked, s, [0.0] * 50, pa.float64(), "ab"[s]) for s in (0, 1))
    calls: list[int] = []
    holds = general.MatchKernel.holds

    def counting(self: Any, columns: Any) -> Any:
        calls.append(len(columns[0]))
        return holds(self, columns)

    monkeypatch.setattr(general.MatchKernel, "holds", counting)
    counted = []
    for aside in (False, True):
        calls.clear()
        run(asked, left, right, aside=aside)
        counted.append(list(calls))
    assert counted[0] == counted[1] == [2500]
