"""What a query will do, in words, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.kernel.order import steps
from anabranch.model.duration import readable
from anabranch.model.query import Query
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
from anabranch.routing.base import Router
from anabranch.routing.strategies import Strategy, reason

HOW: dict[type, str] = {
    Equal: "index of hashed keys and times",
    Band: "sorted index",
    Interval: "sorted index",
    Within: "matrix products (BLAS)",
    Cosine: "matrix products (BLAS), or an inverted index of weights for maps",
    InnerProduct: "matrix products (BLAS), or an inverted index of weights for maps",
    Overlap: "inverted index",
    Jaccard: "inverted index",
    Alike: "every pair in the window, pixel by pixel",
    Expression: "evaluated by DuckDB on pairs in the window",
    Match: "called with blocks of pairs in the window",
}


def explanation(
    query: Query,
    router: Router,
    asked: Strategy,
    spark_conditions: Sequence[str],
) -> str:
    """A text of a screen or less."""
    names = [stream.name for stream in query.streams]
    lines = [f"Join of {len(names)} streams: {' ⋈ '.join(names)}", "", "Streams"]
    for stream, filters, stored in zip(query.streams, query.filters, query.stored, strict=True):
        lines.append(
            f"  {stream.name}: window {readable(stream.window)}, "
            f"lateness {readable(stream.lateness)}, time {stream.time}, "
            f"keeps {', '.join(c.sql for c in stored) or 'only the time'}"
        )
        lines += [f"    filtered on arrival: {sql}" for sql in filters]
    lines += ["", "Terms"]
    for position, term in enumerate(query.terms):
        how = HOW[type(term.kind)]
        if query.key is not None and position not in query.key_terms:
            how = (
                f"checked on pairs that the key finds ({how})"
                if not isinstance(term.kind, Equal)
                else "found by the key that spans all streams, then checked"
            )
        lines.append(f"  {term.text}: {how}")
    narrowed = (
        "combinations that the other terms leave over"
        if query.terms
        else ("every combination in the window, since no other term narrows them")
    )
    lines += [f"  {sql}: decided by Spark, on {narrowed}" for sql in spark_conditions]
    lines += ["", f"Strategy: {router.name} on {router.hosts} host(s)"]
    lines.append(f"  {reason(asked, router.name)}")
    lines.append(f"  for equal rates: {router.forecast([1.0] * len(names), query)}")
    lines += ["", "Probe order (first guess; measured selectivities change it while it runs)"]
    for start, name in enumerate(names):
        order = steps(query, start, [1] * len(names))
        lines.append(f"  new rows of {name} → {' → '.join(names[s.stream] for s in order)}")
    return "\n".join(lines)
