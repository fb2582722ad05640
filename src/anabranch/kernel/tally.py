"""What a join task counts while it works; small enough to travel with its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.kernel.base import Ints
from anabranch.kernel.block import Block
from anabranch.model.query import Query

SHOWN = 60
"""Characters of a value that are shown."""
TOP = 5
"""How many of the most multiplying rows a task names."""


@dataclass
class Tally:
    """Counts per term, by its position: pairs in an index's reach, compared, matched."""

    reach: Counter[int] = field(default_factory=Counter)
    compared: Counter[int] = field(default_factory=Counter)
    matched: Counter[int] = field(default_factory=Counter)
    results: int = 0
    multiplying: list[dict[str, Any]] = field(default_factory=list)

    def reached(self, position: int, pairs: int) -> None:
        self.reach[position] += pairs

    def decided(self, position: int, compared: int, matched: int) -> None:
        self.compared[position] += compared
        self.matched[position] += matched

    def probed(self, query: Query, stream: int, block: Block, fan_out: Ints) -> None:
        """Note the rows of a probed block that gave the most results."""
        self.results += int(fan_out.sum())
        size = min(TOP, len(fan_out))
        for row in np.argpartition(fan_out, len(fan_out) - size)[len(fan_out) - size :]:
            if fan_out[row]:
                self.multiplying.append(
                    described_row(query, stream, block, int(row), int(fan_out[row]))
                )
        self.multiplying.sort(key=lambda entry: -entry["results"])
        del self.multiplying[TOP:]

    def copy(self) -> Tally:
        other = Tally()
        other.add(self.to_dict())
        return other

    def selectivities(self) -> dict[int, float]:
        """Of the pairs that a term stood for, the part that matched; by the term's position."""
        pairs = {
            position: max(self.reach[position], self.compared[position])
            for position in {*self.reach, *self.compared}
        }
        return {p: max(self.matched[p], 0.5) / count for p, count in pairs.items() if count}

    def to_dict(self) -> dict[str, Any]:
        return {
            "reach": dict(self.reach),
            "compared": dict(self.compared),
            "matched": dict(self.matched),
            "results": self.results,
            "multiplying": self.multiplying,
        }

    def add(self, other: Mapping[str, Any]) -> None:
        """Add the counts of another task, as `to_dict` gives them."""
        for name in ("reach", "compared", "matched"):
            counts: Counter[int] = getattr(self, name)
            for position, count in other[name].items():
                counts[int(position)] += count
        self.results += other["results"]
        self.multiplying = sorted(
            [*self.multiplying, *other["multiplying"]], key=lambda entry: -entry["results"]
        )[:TOP]


def described_row(
    query: Query, stream: int, block: Block, row: int, results: int
) -> dict[str, Any]:
    """A row by its time and the columns that terms compare, with the results that it gave."""
    columns = sorted(
        {
            operand.column
            for term in query.terms
            for operand in term.operands
            if operand.stream == stream
            and operand.column in block.columns
            and not operand.column.startswith("#")
        }
    )
    values = {name: shown(block.columns[name], row) for name in columns}
    return {
        "stream": query.streams[stream].name,
        "time": int(block.times[row]),
        "values": values,
        "results": results,
    }


def shown(column: pa.Array, row: int) -> str:
    """A value for people. What Python has no value for, a year beyond 9999 say, is its type."""
    try:
        return str(column[row].as_py())[:SHOWN]
    except (ValueError, OverflowError, pa.ArrowException):
        return f"<{column.type}>"
