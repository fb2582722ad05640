"""Queries, data and batchings, drawn at random: what the contract suite is run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import anabranch as ab
from anabranch.model.terms import Request

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("a", "b", "c", "d", "e")
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "ts": pa.timestamp("us", tz="UTC"),
        "k": pa.int32(),
        "n": pa.int64(),
        "s": pa.string(),
        "x": pa.float64(),
        "lo": pa.float64(),
        "hi": pa.float64(),
        "v": pa.list_(pa.float64()),
        "tags": pa.list_(pa.int32()),
        "words": pa.list_(pa.string()),
        "weights": pa.map_(pa.string(), pa.float64()),
        "image": pa.binary(),
    }
)


@dataclass(frozen=True)
class Case:
    """A query over some streams, and the rows of each, in batches."""

    windows: tuple[int, ...]
    lateness: tuple[int, ...]
    terms: tuple[str | Request, ...]
    batches: tuple[tuple[tuple[dict[str, Any], ...], ...], ...]
    """For each batch, the rows of each stream."""

    @property
    def streams(self) -> int:
        return len(self.windows)

    @property
    def is_sql(self) -> bool:
        return all(isinstance(term, str) for term in self.terms)

    def rows(self, stream: int) -> list[dict[str, Any]]:
        return [row for batch in self.batches for row in batch[stream]]

    def __repr__(self) -> str:
        terms = [term if isinstance(term, str) else term.text for term in self.terms]
        rows = [[list(rows) for rows in batch] for batch in self.batches]
        return f"Case(windows={self.windows}, lateness={self.lateness}, {terms=}, {rows=})"


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def nearly(left: Any, right: Any) -> Any:
    """A user's predicate: sums of numbers, in NumPy."""
    return np.abs(left + right) <= 2


PAIRED: tuple[Callable[[str, str], str | Request], ...] = (
    lambda a, b: f"{a}.k = {b}.k",
    lambda a, b: f"{a}.k = {b}.n",
    lambda a, b: f"{a}.s = {b}.s",
    lambda a, b: f"{a}.x = {b}.x",
    lambda a, b: f"upper({a}.s) = upper({b}.s) AND {a}.k = {b}.k",
    lambda a, b: f"abs({a}.x - {b}.x) <= 0.5",
    lambda a, b: f"abs({a}.n - {b}.k) < 2",
    lambda a, b: f"{b}.x BETWEEN {a}.lo AND {a}.hi",
    lambda a, b: f"{b}.x > {a}.lo AND {b}.x < {a}.hi",
    lambda a, b: f"{a}.n < {b}.n",
    lambda a, b: f"{a}.s <= {b}.s",
    lambda a, b: f"{a}.n + {b}.n = 3",
    lambda a, b: f"{a}.k = {b}.k OR {a}.n = {b}.n",
    lambda a, b: f"NOT ({a}.k = {b}.k)",
    lambda a, b: f"{a}.k <=> {b}.k",
    lambda a, b: f"{a}.k IS NULL OR {a}.n * 2 > {b}.n",
    lambda a, b: f"concat({a}.s, {b}.s) LIKE '%xy%'",
    lambda a, b: f"{a}.ts < {b}.ts AND {b}.ts - {a}.ts < INTERVAL 5 SECONDS",
    lambda a, b: ab.equal(f"{a}.k", f"{b}.k"),
    lambda a, b: ab.band(f"{a}.x", f"{b}.x", 1),
    lambda a, b: ab.within(f"{a}.v", f"{b}.v", distance=5),
    lambda a, b: ab.cosine(f"{a}.v", f"{b}.v", at_least=0.5),
    lambda a, b: ab.inner_product(f"{a}.v", f"{b}.v", at_least=3),
    lambda a, b: ab.inner_product(f"{a}.weights", f"{b}.weights", at_least=1),
    lambda a, b: ab.cosine(f"{a}.weights", f"{b}.weights", at_least=0.25),
    lambda a, b: ab.overlap(f"{a}.tags", f"{b}.tags", at_least=2),
    lambda a, b: ab.overlap(f"{a}.words", f"{b}.words", at_least=1),
    lambda a, b: ab.jaccard(f"{a}.tags", f"{b}.tags", at_least=0.5),
    lambda a, b: ab.alike(f"{a}.image", f"{b}.image", at_least=0.5),
    lambda a, b: ab.match(nearly, f"{a}.n", f"{b}.n"),
)
"""Every kind of term, between two streams."""

SINGLE = (lambda a: f"{a}.n > 0", lambda a: f"{a}.s IS NOT NULL AND {a}.k < 3")
TRIPLE = (
    lambda a, b, c: f"{a}.n + {b}.n > {c}.n",
    lambda a, b, c: f"{a}.k = {b}.k OR {b}.k = {c}.k",
)

_few = st.integers(0, 4)
_reals = st.one_of(
    st.integers(-8, 8).map(lambda quarters: quarters / 4),
    st.sampled_from([float("nan"), float("inf"), -0.0]),
)


def _row(seconds: int, draw: st.DrawFn) -> dict[str, Any]:
    none = st.none()
    low = draw(_reals)
    return {
        "id": draw(st.integers(0, 50)),  # now and then two rows are alike
        "ts": START + timedelta(seconds=seconds),
        "k": draw(none | _few),
        "n": draw(_few),
        "s": draw(none | st.sampled_from(["", "x", "y", "X", "xy"])),
        "x": draw(none | _reals),
        "lo": low,
        "hi": draw(st.sampled_from([low, low + 0.5, low + 2])),
        "v": draw(none | st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=2)),
        "tags": draw(none | st.lists(none | _few, max_size=5)),
        "words": draw(none | st.lists(st.sampled_from(["p", "q", "r", ""]), max_size=3)),
        "image": draw(
            none | st.sampled_from([b"\0" * 6, b"\x10" * 6, b"\0" * 3 + b"\x40" * 3, b""])
        ),
        "weights": draw(
            none
            | st.dictionaries(
                st.sampled_from(["p", "q", "r"]), st.sampled_from([-1.0, 0.0, 0.5, 2.0]), max_size=3
            ).map(lambda weights: list(weights.items()))
        ),
    }


@st.composite
def cases(draw: st.DrawFn, most_batches: int = 4) -> Case:
    """A query of two to five streams with disorder, ties in time, nulls, duplicates and skew."""
    streams = draw(st.integers(2, 5))
    names = NAMES[:streams]
    terms: list[str | Request] = []
    # Now and then one equality spans all streams: chance alone would rarely have it so.
    chain = PAIRED[:1] if draw(st.integers(0, 3)) == 0 else PAIRED
    for position in range(1, streams):
        other = draw(st.integers(0, position - 1))
        terms.append(draw(st.sampled_from(chain))(names[other], names[position]))
    if draw(st.booleans()):
        first, second = draw(st.permutations(range(streams)))[:2]
        terms.append(draw(st.sampled_from(PAIRED))(names[first], names[second]))
    if draw(st.integers(0, 3)) == 0:
        terms.append(draw(st.sampled_from(SINGLE))(draw(st.sampled_from(names))))
    if streams > 2 and draw(st.integers(0, 3)) == 0:
        terms.append(draw(st.sampled_from(TRIPLE))(*draw(st.permutations(names))[:3]))
    largest = {2: 12, 3: 6, 4: 4, 5: 3}[streams]
    batches = draw(st.integers(1, most_batches))
    rows = tuple(
        tuple(
            tuple(
                _row(draw(st.integers(4 * batch, 4 * batch + 12)), draw)
                for _ in range(draw(st.integers(0, largest)))
            )
            for _ in names
        )
        for batch in range(batches)
    )
    windows = tuple(draw(st.sampled_from([0, 1, 3, 5, 20])) for _ in names)
    lateness = tuple(draw(st.sampled_from([0, 2, 8, 60])) for _ in names)
    return Case(windows, lateness, tuple(terms), rows)
