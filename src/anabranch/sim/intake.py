"""What the diffusion operator tells the router of rows: what the Spark runtime does of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.kernel.tally import Tally
from anabranch.model.query import Query
from anabranch.model.watermark import Seen, advance, expired_before
from anabranch.report.statistics import Statistics
from anabranch.routing.base import Plan, Situation
from anabranch.sim.tuples import Tuples
from anabranch.state.manifest import without_expired
from anabranch.state.segment import SegmentRef


class Intake:
    """Event time, segments of live rows, and what was learned of the streams."""

    def __init__(self, query: Query, tuple_bytes: int) -> None:
        self._query, self._tuple_bytes = query, tuple_bytes
        self._segments: list[list[SegmentRef]] = [[] for _ in query.streams]
        self._seen = tuple(Seen(None) for _ in query.streams)
        self._statistics = Statistics()
        self.watermark: int | None = None

    @property
    def latest(self) -> int:
        """The latest event time of any row so far."""
        return max((seen.greatest for seen in self._seen if seen.greatest is not None), default=0)

    def timely(self, rows: Mapping[int, Tuples]) -> dict[int, Tuples]:
        """Without the rows that are late."""
        found = dict(rows)
        if self.watermark is not None:
            found = {s: some.take(some.times >= self.watermark) for s, some in rows.items()}
        return {stream: some for stream, some in found.items() if len(some)}

    def situation(
        self, number: int, rows: Mapping[int, Tuples], waiting: Mapping[int, float]
    ) -> Situation:
        """Rows of an epoch beside those that are live, as the router is told of them."""
        return Situation(
            self._query,
            number,
            [list(refs) for refs in self._segments],
            [
                [self._described(number, stream, rows[stream])] if stream in rows else []
                for stream in range(len(self._segments))
            ],
            self.watermark,
            self._statistics.selectivities,
            self._statistics.partners,
            waiting,
        )

    def _described(self, number: int, stream: int, rows: Tuples) -> SegmentRef:
        return SegmentRef(
            f"{number}/{stream}",
            stream,
            len(rows),
            len(rows) * self._tuple_bytes,
            int(rows.times.min()),
            int(rows.times.max()),
            0,
        )

    def advance(self, situation: Situation, rows: Mapping[int, Tuples]) -> None:
        """Event time goes on, as it does on Spark when a batch is committed."""
        self._seen = tuple(
            Seen(max(int(rows[stream].times.max()), seen.greatest or 0)) if stream in rows else seen
            for stream, seen in enumerate(self._seen)
        )
        self.watermark = advance(self._query.streams, self._seen, self.watermark).value
        self._segments = [
            list(without_expired(situation.all(stream), expired_before(self.watermark, window)))
            for stream, window in enumerate(self._query.windows)
        ]

    def learn(self, plan: Plan, situation: Situation, reports: Sequence[Mapping[str, Any]]) -> None:
        """Take in what hosts have counted in an epoch."""
        tally = Tally()
        for report in reports:
            tally.add(report)
        self._statistics = self._statistics.after(tally, plan, situation, reports)
