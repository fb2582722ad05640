"""What the diffusion operator tells each host in an epoch: rows to keep, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from anabranch.sim.directory import Bools, Directory, OldRows
from anabranch.sim.epochs import Epoch
from anabranch.sim.messages import Assignment, Order, Part
from anabranch.sim.tuples import Tuples


def assignments(
    epoch: Epoch, order: Order, directory: Directory, needed: Sequence[Bools], old: OldRows
) -> Iterator[tuple[int, Assignment]]:
    """A message for each host that takes part, be it only to know that the epoch has come."""
    parts: dict[int, list[Part]] = {}
    for share in epoch.plan.shares:
        if not share.counts_only and not epoch.quiet:
            parts.setdefault(share.host, []).extend(Part(box, share.groups) for box in share.boxes)
    probes, visited = _probes(epoch)
    fresh: dict[int, dict[int, Tuples]] = {}
    for stream, (live, needs) in enumerate(zip(directory.live, needed, strict=True)):
        new = needs & (live.epochs == epoch.number)
        for host in np.flatnonzero(new.any(axis=1)).tolist():
            fresh.setdefault(host, {})[stream] = live.rows.take(new[host])
    for host in sorted({*parts, *probes, *visited, *fresh, *old}):
        rows, before, probing = fresh.get(host, {}), old.get(host, {}), probes.get(host, {})
        tuples = sum(map(len, rows.values())) + sum(len(some) for some, _ in before.values())
        for route, some in probing.items():  # rows that are only probed with are sent as well
            kept = rows.get(epoch.plan.routes[route].start, Tuples.none())
            tuples += len(some) - int(np.isin(some.ids, kept.ids).sum())
        mine = tuple(parts.get(host, ()))
        yield host, Assignment(order, rows, before, mine, probing, tuples)


def _probes(epoch: Epoch) -> tuple[dict[int, dict[int, Tuples]], set[int]]:
    """By host and route, the rows that set out there; and all hosts of all hops."""
    probes: dict[int, dict[int, Tuples]] = {}
    visited: set[int] = set()
    for number, route in enumerate(epoch.plan.routes):
        rows = epoch.rows[route.start].within(*route.times)
        if not len(rows) or epoch.quiet:
            continue
        for hop, reach in zip(route.hops, route.reaches, strict=True):
            visited.update(hop.hosts(reach))
        for host in route.hops[0].hosts(route.reaches[0]):
            probes.setdefault(host, {})[number] = rows
    return probes, visited
