"""Streams that flow evenly, to compare what a strategy costs with what its equations say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.model.query import TIME, Operand, Output, Query, StoredColumn, Stream, Term
from anabranch.model.terms import Band
from anabranch.routing.base import Router, Situation
from anabranch.state.segment import SegmentRef
from tests.contract.cluster import Cluster

SECOND = 1_000_000


def chained(windows: Sequence[float], width: float) -> Query:
    """Streams with windows in seconds, each joined to the next by a band on x, drawn from 0 … 1."""
    names = "abcdefghi"[: len(windows)]
    streams = tuple(
        Stream(name, "ts", round(window * SECOND), 0, 10**15)
        for name, window in zip(names, windows, strict=True)
    )
    stored = (StoredColumn("id", "id", '"long"'), StoredColumn("x", "x", '"double"'))
    terms = tuple(
        Term(f"band {at}", Band(width), (Operand(at, "x"), Operand(at + 1, "x")))
        for at in range(len(names) - 1)
    )
    outputs = tuple(Output(f"{name}_id", Operand(at, "id")) for at, name in enumerate(names))
    return Query(streams, (stored,) * len(names), ((),) * len(names), terms, outputs)


class Flow:
    """A cluster under streams of fixed rates, batch after batch."""

    def __init__(
        self, query: Query, rates: Sequence[int], router: Router, directory: Path, seed: int = 1
    ) -> None:
        self.query, self.rates = query, rates
        self.cluster = Cluster(query, directory, router)
        self.random = np.random.default_rng(seed)
        self.time = 0
        self.results = 0

    def batch(self, seconds: float = 1.0) -> dict[str, Any]:
        """One batch, and what it cost."""
        length = round(seconds * SECOND)
        tables = []
        for rate in self.rates:
            rows = round(rate * seconds)
            times = self.time + np.sort(self.random.integers(0, length, rows))
            tables.append(
                pa.table(
                    {
                        TIME: pa.array(times),
                        "id": pa.array(np.arange(rows)),
                        "x": pa.array(self.random.random(rows)),
                    }
                )
            )
        self.results = sum(found.num_rows for found in self.cluster.push(tables))
        live = self.cluster.live_rows
        self.time += length
        self.cluster.advance(self.time)
        return {**self.cluster.diffusion, "live": live, "rows": sum(t.num_rows for t in tables)}


class World:
    """The same as seen by a driver: descriptions of segments, and no rows at all."""

    def __init__(self, query: Query, segments: int = 4) -> None:
        self.query, self.segments = query, segments
        self.refs: list[list[SegmentRef]] = [[] for _ in query.streams]
        self.number = 0

    def batch(self, rows: int) -> Situation:
        """The next second, with so many rows over all streams."""
        first = self.number * SECOND
        each = rows // (len(self.query.streams) * self.segments)
        new = [
            [
                SegmentRef(
                    f"{stream}/{self.number}/{part}",
                    stream,
                    each,
                    100 * each,
                    first,
                    first + SECOND - 1,
                    0,
                )
                for part in range(self.segments)
            ]
            for stream in range(len(self.query.streams))
        ]
        old = [
            [ref for ref in refs if ref.last >= first - stream.window]
            for refs, stream in zip(self.refs, self.query.streams, strict=True)
        ]
        self.refs = [[*before, *fresh] for before, fresh in zip(old, new, strict=True)]
        self.number += 1
        return Situation(self.query, self.number, old, new, first)
