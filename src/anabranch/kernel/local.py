"""The join in one process and without Spark: what the kernels alone can do.

Benchmarks measure the runtime against it, and tests use it where Spark adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernel.block import Block, build, total_rows
from anabranch.kernel.order import steps
from anabranch.kernel.probe import Join
from anabranch.kernel.tally import Tally
from anabranch.model.query import TIME, Query
from anabranch.model.watermark import Seen, advance, expired_before


class LocalJoin:
    """Windowed state in memory; `push` a batch to get the results that it adds."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.tally = Tally()
        self.late = [0] * len(query.streams)
        self._blocks: list[list[Block]] = [[] for _ in query.streams]
        self._seen = [Seen(None) for _ in query.streams]
        self._watermark: int | None = None

    @property
    def live_rows(self) -> int:
        return sum(total_rows(blocks) for blocks in self._blocks)

    def push(self, batch: Sequence[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Join one table a stream (stored columns and `#time`) with all that is live."""
        new = [self._ingest(stream, table) for stream, table in enumerate(batch)]
        rows = [total_rows([*self._blocks[s], *new[s]]) for s in range(len(new))]
        orders = [
            steps(self.query, start, rows, self.tally.selectivities()) for start in range(len(new))
        ]
        yield from Join(self.query, orders, self.tally).run(self._blocks, new)
        self._watermark = advance(self.query.streams, self._seen, self._watermark).value
        for stream, window in enumerate(self.query.windows):
            horizon = expired_before(self._watermark, window)
            self._blocks[stream] = [
                block
                for block in [*self._blocks[stream], *new[stream]]
                if horizon is None or block.last >= horizon
            ]

    def _ingest(self, stream: int, table: pa.Table) -> list[Block]:
        if self._watermark is not None:
            timely = pc.greater_equal(table.column(TIME), self._watermark)
            self.late[stream] += table.num_rows - int(pc.sum(timely).as_py() or 0)
            table = table.filter(timely)
        for name in self.query.never_null(stream):
            if table.column(name).null_count:
                table = table.filter(pc.is_valid(table.column(name)))
        if not table.num_rows:
            return []
        block = build(self.query, stream, table)
        greatest = max(block.last, self._seen[stream].greatest or np.iinfo(np.int64).min)
        self._seen[stream] = Seen(greatest)
        return [block]
