"""The order in which an m-way probe visits the streams, and the index it uses at each step.

Both follow from selectivities that were measured while the query ran; the first batch starts
from a guess per kind of term.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.model.query import Query, Term
from anabranch.model.terms import (
    Alike,
    Band,
    Cosine,
    Equal,
    Expression,
    InnerProduct,
    Interval,
    Jaccard,
    Match,
    Overlap,
    Within,
)

PAIR_COST = 50.0
"""Nanoseconds to check and carry one candidate pair, measured; only ratios matter."""


@dataclass(frozen=True)
class Cost:
    """A kind's guessed selectivity, and nanoseconds to scan and to decide a pair."""

    selectivity: float
    scan: float
    decide: float


COSTS: dict[type, Cost] = {
    Equal: Cost(0.001, 0.0, 10.0),
    Band: Cost(0.01, 0.0, 10.0),
    Interval: Cost(0.1, 0.0, 15.0),
    Overlap: Cost(0.01, 8.0, 400.0),
    Jaccard: Cost(0.01, 8.0, 400.0),
    Within: Cost(0.01, 4.0, 200.0),
    Cosine: Cost(0.01, 4.0, 200.0),
    InnerProduct: Cost(0.01, 4.0, 200.0),
    Alike: Cost(0.01, 10_000.0, 10_000.0),
    Expression: Cost(0.3, 50.0, 60.0),
    Match: Cost(0.1, 50.0, 1000.0),
}


@dataclass(frozen=True)
class Step:
    """Visit `stream`, find candidates by the index of a term (or by time alone), check the rest."""

    stream: int
    index: int | None
    """Position of the term whose index proposes; None for the key, or for every row in reach."""
    checks: tuple[int, ...]
    """Positions of the terms that can be decided here, the cheapest first."""


def steps(
    query: Query,
    start: int,
    rows: Sequence[float],
    selectivities: Mapping[int, float] | None = None,
) -> tuple[Step, ...]:
    """The cheapest next stream first, greedily: least rows expected to come out of the step.

    `rows` are the live rows of each stream; `selectivities` those measured, by term position.
    """
    known = selectivities or {}
    bound = {start}
    order: list[Step] = []
    while len(bound) < len(query.streams):
        candidates = [s for s in range(len(query.streams)) if s not in bound]
        best = min(candidates, key=lambda s: (fan_out(query, bound, s, rows, known), s))
        order.append(_step(query, bound, best, known))
        bound.add(best)
    return tuple(order)


def steps_along(
    query: Query,
    start: int,
    order: Sequence[int],
    selectivities: Mapping[int, float] | None = None,
) -> tuple[Step, ...]:
    """The steps of a probe that visits the streams in a given order."""
    bound = {start}
    found = []
    for stream in order:
        found.append(_step(query, bound, stream, selectivities or {}))
        bound.add(stream)
    return tuple(found)


def _decidable(query: Query, bound: set[int], stream: int) -> list[int]:
    reached = bound | {stream}
    return [
        position
        for position, term in enumerate(query.terms)
        if stream in term.streams and term.streams <= reached
    ]


def _selectivity(query: Query, position: int, known: Mapping[int, float]) -> float:
    return known.get(position, COSTS[type(query.terms[position].kind)].selectivity)


def fan_out(
    query: Query, bound: set[int], stream: int, rows: Sequence[float], known: Mapping[int, float]
) -> float:
    """Rows of a stream that a combination of bound ones is expected to match."""
    expected = float(rows[stream])
    for position in _decidable(query, bound, stream):
        expected *= _selectivity(query, position, known)
    return expected


def _step(query: Query, bound: set[int], stream: int, known: Mapping[int, float]) -> Step:
    def cost(position: int) -> tuple[float, int]:
        kind = COSTS[type(query.terms[position].kind)]
        return kind.scan + _selectivity(query, position, known) * PAIR_COST, position

    decidable = _decidable(query, bound, stream)
    indexed = [position for position in decidable if _has_index(query.terms[position])]
    index = min(indexed, key=cost) if indexed and query.key is None else None
    checks = sorted(decidable, key=lambda p: (COSTS[type(query.terms[p].kind)].decide, p))
    return Step(stream, index, tuple(checks))


def _has_index(term: Term) -> bool:
    return len(term.streams) == 2 and not isinstance(term.kind, Match | Expression)
