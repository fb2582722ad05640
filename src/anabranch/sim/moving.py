"""Rows that change places: sent from host to host, and dropped where nothing needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import simpy

from anabranch.sim.directory import Bools, Directory
from anabranch.sim.messages import Drop, Moved, Send
from anabranch.sim.network import DIFFUSION, Network, Waits
from anabranch.sim.tuples import Ints


class Mover:
    """Has rows moved and dropped, and knows how much of that is still to be done."""

    def __init__(self, directory: Directory, network: Network, tell: Callable[[str], None]) -> None:
        self._directory, self._network, self._tell = directory, network, tell
        self._attempt = 0
        self._pending = 0

    def reset(self, attempt: int) -> None:
        """What was under way is void."""
        self._attempt, self._pending = attempt, 0

    def arrived(self, attempt: int) -> None:
        """Rows are where they should be, or gone."""
        self._pending -= attempt == self._attempt

    def move(self, missing: Sequence[Bools], news: Callable[[], simpy.Event]) -> Waits:
        """Rows go from a host that has them to those that lack them; the join waits."""
        yield from self._settled(news)  # what is still to be dropped must not be afterwards
        for stream, (live, some) in enumerate(zip(self._directory.live, missing, strict=True)):
            for host in np.flatnonzero(some.any(axis=1)).tolist():
                lacking = np.flatnonzero(some[host])
                anyone = live.held[:, lacking].any(axis=0)
                sources = np.where(anyone, live.held[:, lacking].argmax(axis=0), DIFFUSION)
                for source in np.unique(sources):
                    self._order(stream, int(source), int(host), lacking[sources == source])
            live.held |= some
        yield from self._settled(news)

    def _settled(self, news: Callable[[], simpy.Event]) -> Waits:
        while self._pending:
            yield news()

    def _order(self, stream: int, source: int, target: int, which: Ints) -> None:
        live = self._directory.live[stream]
        rows = live.rows.take(which)
        self._tell(f"{len(rows)} rows of stream {stream} move from {source} to {target}")
        self._pending += 1
        if source == DIFFUSION:
            moved = Moved(self._attempt, stream, rows, live.epochs[which])
            self._network.send(DIFFUSION, target, moved, len(rows))
        else:
            self._network.send(DIFFUSION, source, Send(self._attempt, stream, rows.ids, target))

    def drop_retired(self, first: int | None) -> None:
        """Have hosts drop what no epoch from `first` on needs there."""
        for host, stream, ids in self._directory.due(first):
            self._pending += 1
            self._network.send(DIFFUSION, host, Drop(self._attempt, stream, ids))
