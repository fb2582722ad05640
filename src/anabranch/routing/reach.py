"""Which times of the streams still to be visited can hold partners."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.query import Query
from anabranch.routing.base import Box
from anabranch.routing.slices import BEGINNING, END, Range


def reaches(query: Query, start: int, times: Range, order: Sequence[int]) -> tuple[Range, ...]:
    """For rows of a stream in a range of times, and each stream that they visit in turn.

    A partner is at most its own window before the rows, and at most theirs after them.
    """
    window = query.streams[start].longest
    return tuple((times[0] - query.streams[stream].longest, times[1] + window) for stream in order)


def reach_of(query: Query, box: Box) -> dict[int, Range]:
    """The times that rows of each stream may have in results of a box; empty for no bounds."""
    if not box:
        return {}
    reach = {}
    for stream, own in enumerate(query.streams):
        first, last = box.get(stream, (BEGINNING, END))
        for other, times in box.items():
            if other != stream:
                first = max(first, times[0] - own.longest)
                last = min(last, times[1] + query.streams[other].longest)
        reach[stream] = (first, last)
    return reach
