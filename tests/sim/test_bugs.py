"""Four bugs put in on purpose, each found within 200 seeds: what a check is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from anabranch.routing.base import Box
from anabranch.sim.diffusion import Diffusion
from anabranch.sim.doing import Doing
from anabranch.sim.messages import Part, Train, Unit, Visit
from anabranch.sim.ring import RingPart
from anabranch.sim.scenarios import drawn, judged
from anabranch.sim.tuples import Tuples

WITHIN = 200


def first_found(seeds: Iterable[int]) -> int | None:
    """The first seed that is judged wrong."""
    return next((s for s in seeds if not judged(s, drawn(s, faults=True)).right), None)


def a_pair_is_executed_on_two_hosts() -> AbstractContextManager[Any]:
    """CTR: a host also joins the rows that it holds for others (LD07's step 3 left out)."""

    def owned_by(_self: Visit, _host: int, rows: Tuples) -> Tuples:
        return rows

    return patch.object(Visit, "owned_by", owned_by)


def an_end_tuple_is_sent_early() -> AbstractContextManager[Any]:
    """PSP: the head takes the first train for the last."""
    depart = RingPart._depart

    def early(self: RingPart, unit: Unit, hop: int, doing: Doing) -> Iterator[float]:
        yield from depart(self, unit, hop, doing)
        if hop == 1 and len(unit.visits) > 1:
            yield from self._forward(unit, Train(unit, len(unit.visits), ()), [], doing)

    def ends_here(self: RingPart, message: Train, doing: Doing) -> Train:
        if message.hop < len(message.unit.visits):
            return message
        self._marks.pop(message.unit.number, None)
        results = message.results + doing.results
        return replace(message, results=results, reports=(*message.reports, doing.report()))

    return patch.multiple(RingPart, _depart=early, _ends_here=ends_here)


def a_master_switch_forgets_the_marks() -> AbstractContextManager[Any]:
    """ATR: marked rows join whatever they meet."""

    def bounds(self: Part) -> Box:
        if not self.mark:
            return self.box
        narrowest = min(self.box, key=lambda s: self.box[s][1] - self.box[s][0])
        return {narrowest: self.box[narrowest]}

    return patch.object(Part, "bounds", bounds)


def a_slice_moves_without_its_rows_in_flight() -> AbstractContextManager[Any]:
    """A move does not wait for the epochs before it."""

    def drained(self: Diffusion, _epoch: Any) -> Iterator[Any]:
        yield self._env.timeout(0)

    return patch.object(Diffusion, "_drained", drained)


@pytest.mark.parametrize(
    "bug",
    [
        a_pair_is_executed_on_two_hosts,
        an_end_tuple_is_sent_early,
        a_master_switch_forgets_the_marks,
        a_slice_moves_without_its_rows_in_flight,
    ],
)
def test_a_bug_is_found_within_200_seeds(bug: Callable[[], AbstractContextManager[Any]]) -> None:
    with bug():
        found = first_found(range(WITHIN))
    assert found is not None
    assert judged(found, drawn(found, faults=True)).right, "without the bug the seed is right"
