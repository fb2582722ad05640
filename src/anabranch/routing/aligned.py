"""ATR, aligned tuple routing (LD07, section 3): one master stream decides where all rows go.

The time axis of the master is cut into segments, each on the host that is least loaded when the
segment begins. A result belongs to the segment of its master row, so the other streams (slaves)
are needed there from `W_i` before the segment to `W_M` after it: neighbouring segments share
them, and that overlap is the price (Eq. 2).

A change of master at `t_s`, from M to N, divides results by the times of both: those whose M row
or N row is before `t_s` still belong to M's segments, the others to N's. M rows after `t_s` that
meet earlier N rows go to the last of M's segments: LD07's marked tuples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from anabranch.adapt.events import Event
from anabranch.adapt.length import LengthSearch
from anabranch.adapt.load import Weights
from anabranch.errors import QueryError
from anabranch.model.duration import readable
from anabranch.model.query import Query
from anabranch.routing.adaptive import AdaptiveRouter
from anabranch.routing.base import Box, Measured, Plan, Share, Situation
from anabranch.routing.pairs import pairs_of
from anabranch.routing.reach import reach_of
from anabranch.routing.reigns import Election, Reign, parts
from anabranch.routing.slices import BEGINNING, Density, Slices, segment_length, united

MOST_SEGMENTS = 64
"""Of one master at a time: more would cost more to plan than they balance."""


@dataclass(frozen=True)
class Atr:
    """Options of ATR. The defaults adapt everything; fixed values make LD07's unoptimized ATR."""

    segment: str | None = None
    """Length of a master segment, like "5 seconds"; None: found while running."""
    master: str | None = None
    """The stream to align with; None: elected, again and again, by Eq. 2."""
    first: str | None = None
    """The length that the search begins with; None: a part of the first batch."""
    trial: int = 3
    """For how many batches a length is tried."""
    margin: float = 0.1
    """By what part another master must be cheaper, to make up for the change."""
    master_first: bool = True
    """Probes visit the master early, since a host has few of its rows. False: they go by what is
    known of whole streams, as a join operator does that knows nothing of ATR (LD07): every host
    then compares the same copies of slaves with each other."""
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self) -> None:
        segment_length(self.first)
        if isinstance(self.trial, bool) or not isinstance(self.trial, int) or self.trial < 1:
            raise QueryError(f"trial is {self.trial!r}; write a whole number from 1")


class AtrRouter(AdaptiveRouter):
    """Aligned routing over a number of hosts, adapting its master and its segment length."""

    name = "atr"

    def __init__(self, query: Query, hosts: int, options: Atr | None = None) -> None:
        self.options = options or Atr()
        super().__init__(query, hosts, self.options.weights)
        self._fixed_master = _position(self._names, self.options.master)
        self._fixed_length = segment_length(self.options.segment)
        self._search: LengthSearch | None = None
        self.reigns: list[Reign] = []
        self._latest: Election | None = None
        self._known: set[tuple[int, int]] = set()
        """Master segments that were there in the batch before, by master and first time."""

    # -- a batch -----------------------------------------------------------------------------

    def route(self, situation: Situation) -> Plan:
        self.loads.settle(self.work.parts(situation.waiting))
        densities = [Density(situation.all(s)) for s in range(len(self._names))]
        election = self._latest = self._facts(situation, densities)
        events: list[Event] = []
        if not self.reigns:
            events.append(self._begin(situation, election))
        self._forget(situation)
        events += self._reelect(densities, election)
        events += self._extend(situation, densities, election)
        master = self.reigns[-1].master
        plan = self._plan(situation)
        return replace(
            plan,
            narrowed={master: densities[master].part(election.length)}
            if self.options.master_first
            else {},
            events=tuple(events),
            predicted={"copies_per_second": election.copies(master) * 1e6},
        )

    def _facts(self, situation: Situation, densities: Sequence[Density]) -> Election:
        if self._search is None:
            self._search = self._first_length(situation)
        windows = [stream.latest for stream in situation.query.streams]
        length = self._length_in_bounds(windows, situation)
        rates = [density.rate for density in densities]
        return Election(windows, rates, length, _links(situation.query))

    def _first_length(self, situation: Situation) -> LengthSearch:
        """A batch should spread over all hosts, so it begins with a part of the first batch."""
        spans = [
            max(ref.last for ref in refs) - min(ref.first for ref in refs)
            for refs in situation.new
            if refs
        ]
        length = self._fixed_length or segment_length(self.options.first)
        return LengthSearch(
            length or max(min(spans, default=0) // (4 * self.hosts), 1), batches=self.options.trial
        )

    def _length_in_bounds(self, windows: Sequence[int], situation: Situation) -> int:
        """Not so short that more than a few dozen segments are live, windows and lateness alike."""
        assert self._search is not None
        if self._fixed_length:
            return self._fixed_length
        live = [ref for refs in situation.old for ref in refs]
        span = max((r.last for r in live), default=0) - min((r.first for r in live), default=0)
        self._search.least = max(2 * max(windows) // MOST_SEGMENTS, span // MOST_SEGMENTS, 1)
        self._search.length = max(self._search.length, self._search.least)
        return self._search.length

    def _begin(self, situation: Situation, election: Election) -> Event:
        master = election.winner() if self._fixed_master is None else self._fixed_master
        first = min(ref.first for stream in situation.new for ref in stream)
        host = self.loads.least()
        self.reigns = [Reign(master, BEGINNING, Slices((first,), (host, host)))]
        return self._announce(election, None, master, BEGINNING)

    def _forget(self, situation: Situation) -> None:
        """Drop segments whose rows have all expired, and the reign before once it is over."""
        if situation.watermark is None:
            return
        reigns = []
        for position, reign in enumerate(self.reigns):
            horizon = situation.horizon(reign.master)
            assert horizon is not None
            following = self.reigns[position + 1 : position + 2]
            if following and situation.watermark > following[0].since + max(
                stream.longest for stream in situation.query.streams
            ):
                continue  # every row that it could claim is gone
            reigns.append(replace(reign, slices=reign.slices.since(horizon)))
        if len(reigns) < len(self.reigns):
            reigns[0] = replace(reigns[0], since=BEGINNING)
        self.reigns = reigns

    def _reelect(self, densities: Sequence[Density], election: Election) -> list[Event]:
        if len(self.reigns) > 1 or 0.0 in election.rates:
            return []
        current = self.reigns[-1]
        best = self._fixed_master
        if best is None:
            if not election.pays(current.master, self.options.margin):
                return []
            best = election.winner()
        if best == current.master:
            return []
        last = densities[current.master].last
        if last is None:
            return []
        self.crown(best, last + 1)
        return [self._announce(election, current.master, best, last + 1)]

    def crown(self, master: int, since: int) -> None:
        """Change the master, from a time on. One change must be over before the next."""
        host = self.loads.least()
        self.reigns.append(Reign(master, since, Slices((since,), (host, host))))

    def _extend(
        self, situation: Situation, densities: Sequence[Density], election: Election
    ) -> list[Event]:
        """Segments for the master's new rows, each on the host least loaded by then."""
        reign = self.reigns[-1]
        density = densities[reign.master]
        if density.first is None or density.last is None:
            return []
        slices, events, length = reign.slices, [], election.length
        start = max(slices.last_edge, reign.since)
        # Rows that are in their place stay there: a segment ends among new rows, or behind all.
        begin = max(start, situation.placed(reign.master) + 1 - length)
        cuts = list(density.cuts(begin, length, MOST_SEGMENTS))
        for earlier in self.reigns[:-1]:
            self._charge(situation, densities, election, earlier)
        self._charge(situation, densities, election, reign, cuts[0] - 1 if cuts else None)
        fresh = [(edge, after - 1) for edge, after in pairwise((*cuts, density.last + 1))]
        pairs = pairs_of(situation, densities, election.windows, reign.master, fresh)
        for edge, work in zip(cuts, pairs, strict=True):
            host = self.loads.least()
            load, part = self.loads.value(host), self.work.part(work)
            self.loads.expect(host, part)
            slices = slices.cut(edge, host)
            events.append(
                Event(
                    "segment",
                    f"host {host} is the least loaded ({load:.2f})",
                    {
                        "stream": self._names[reign.master],
                        "from": edge,
                        "length": length,
                        "host": host,
                    },
                    part,
                    "part of a host's batch",
                )
            )
        self.reigns[-1] = replace(reign, slices=slices)
        return events

    def _charge(
        self,
        situation: Situation,
        densities: Sequence[Density],
        election: Election,
        reign: Reign,
        until: int | None = None,
    ) -> None:
        """Count what segments that were there before will cost their hosts in this batch."""
        density = densities[reign.master]
        if density.first is None or density.last is None:
            return
        first, last = max(density.first, reign.since), density.last if until is None else until
        begun = list(reign.slices.pieces(first, last)) if first <= last else []
        pieces = [(max(start, first), min(stop, last)) for (start, stop), _ in begun]
        pairs = pairs_of(situation, densities, election.windows, reign.master, pieces)
        for (_, host), work in zip(begun, pairs, strict=True):
            self.loads.expect(host, self.work.part(work))

    def _plan(self, situation: Situation) -> Plan:
        boxes: dict[int, list[tuple[Box, bool]]] = {}
        known: set[tuple[int, int]] = set()
        for box, host, name in self.boxes():
            if name in self._known:
                known.add(name)
            # A result of this batch has a new row, so that one must be in reach.
            if _reached(situation, box):
                known.add(name)
                boxes.setdefault(host, []).append((box, name not in self._known))
        self._known = known
        shares = tuple(
            Share(
                host,
                boxes=tuple(box for box, _ in mine),
                fresh=tuple(at for at, (_, fresh) in enumerate(mine) if fresh),
            )
            for host, mine in sorted(boxes.items())
        )
        keeps = {
            share.host: {
                stream: united([reach_of(situation.query, box)[stream] for box in share.boxes])
                for stream in range(len(self._names))
            }
            for share in shares
        }
        return Plan(self.hosts, shares=shares, keeps=keeps)

    def boxes(self) -> list[tuple[Box, int, tuple[int, int]]]:
        """Every part of the answer, its host, and a name that it keeps from batch to batch."""
        named = []
        for box, host in parts(self.reigns):
            master = min(box, key=lambda s: box[s][1] - box[s][0]) if box else 0
            named.append((box, host, (master, box[master][0] if box else BEGINNING)))
        return named

    # -- between batches ---------------------------------------------------------------------

    def learn(self, measured: Measured) -> tuple[Event, ...]:
        super().learn(measured)
        if self._search is None or self._fixed_length or not measured.seconds:
            return ()
        before = self._search.length
        compared = measured.rows * (1 - measured.shed)
        why = self._search.measured(compared / measured.seconds)
        if why is None:
            return ()
        what = {"before": before, "after": self._search.length}
        return (Event("length", why, what, self._fewer_copies(before), "copies/s (Eq. 2)"),)

    def _fewer_copies(self, before: int) -> float | None:
        """What another length is expected to spare; its time is what the search then measures."""
        if self._latest is None or self._search is None:
            return None
        master = self.reigns[-1].master
        was, is_now = (
            replace(self._latest, length=length).copies(master) * 1e6
            for length in (before, self._search.length)
        )
        return was - is_now

    def _divide_among(self, hosts: int, *, at_once: bool) -> str:
        """Segments of hosts that leave are dealt out; with `at_once` all are."""
        self.reigns = [
            replace(
                reign,
                slices=Slices(
                    reign.slices.edges,
                    tuple(
                        at % hosts if at_once or owner >= hosts else owner
                        for at, owner in enumerate(reign.slices.owners)
                    ),
                ),
            )
            for reign in self.reigns
        ]
        return "segments are dealt out anew" if at_once else "new segments go to all hosts"

    def forecast(self, rates: Sequence[float], query: Query) -> str:
        windows = [stream.longest for stream in query.streams]
        length = self._fixed_length or max(*windows, 1)
        election = Election(windows, rates, length, _links(query))
        master = election.winner() if self._fixed_master is None else self._fixed_master
        copies = election.copies(master) / max(sum(rates), 1e-12)
        return (
            f"master {self._names[master]}; with segments of {readable(length)} each row is copied "
            f"{copies:.2f} times more (LD07, Eq. 2); the length is then tuned by measurement"
        )

    def _announce(self, election: Election, before: int | None, after: int, since: int) -> Event:
        cost = election.copies(after) * 1e6
        # The first master is held against the worst, a later one against the one before it.
        streams = range(len(self._names)) if before is None else (before,)
        was = max(election.copies(stream) for stream in streams) * 1e6
        why = f"Eq. 2 gives {cost:,.0f} copies a second with {self._names[after]}"
        if before is not None:
            why += f", and {was:,.0f} with {self._names[before]}"
        what = {
            "before": None if before is None else self._names[before],
            "after": self._names[after],
            "since": None if since == BEGINNING else since,
        }
        return Event("election", why, what, was - cost, "copies/s (Eq. 2)")

    def _placed(self) -> Mapping[str, Any]:
        return {
            "reigns": [reign.to_dict() for reign in self.reigns],
            "search": None if self._search is None else self._search.snapshot(),
            "known": sorted(self._known),
        }

    def _replace(self, placed: Mapping[str, Any]) -> None:
        self.reigns = [Reign.from_dict(reign) for reign in placed["reigns"]]
        search = placed["search"]
        self._search = None if search is None else LengthSearch.restored(search)
        self._known = {(master, first) for master, first in placed["known"]}


def _links(query: Query) -> list[int]:
    """How many terms each stream is part of."""
    return [
        sum(stream in term.streams for term in query.terms) for stream in range(len(query.streams))
    ]


def _reached(situation: Situation, box: Box) -> bool:
    reach = reach_of(situation.query, box)
    return any(
        ref.first <= last and ref.last >= first
        for stream, (first, last) in reach.items()
        for ref in situation.new[stream]
    )


def _position(names: Sequence[str], name: str | None) -> int | None:
    if name is None:
        return None
    if name not in names:
        raise QueryError(f"the master {name!r} is no stream; there are {', '.join(names)}")
    return names.index(name)
