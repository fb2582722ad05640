"""What a host has in memory of one stream."""

from __future__ import annotations

import numpy as np

from anabranch.sim.tuples import Ints, Tuples


class Held:
    """Rows in the order of their times, each with the epoch that brought it."""

    def __init__(self) -> None:
        self.rows = Tuples.none()
        self.epochs: Ints = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def insert(self, rows: Tuples, epochs: Ints | int) -> None:
        if not len(rows):
            return
        joined = Tuples.joined([self.rows, rows])
        brought = np.broadcast_to(np.asarray(epochs, np.int64), len(rows))
        order = np.argsort(joined.times, kind="stable")
        self.rows = joined.take(order)
        self.epochs = np.concatenate([self.epochs, brought])[order]

    def insert_once(self, rows: Tuples, epochs: Ints) -> None:
        """Rows that may be here already are not taken twice."""
        fresh = ~np.isin(rows.ids, self.rows.ids)
        self.insert(rows.take(fresh), epochs[fresh])

    def purge(self, horizon: int) -> int:
        """Delete what is older; how many rows that were."""
        gone = int(np.searchsorted(self.rows.times, horizon))
        if gone:
            self.rows, self.epochs = self.rows.take(slice(gone, None)), self.epochs[gone:]
        return gone

    def drop(self, ids: Ints) -> None:
        left = ~np.isin(self.rows.ids, ids)
        self.rows, self.epochs = self.rows.take(left), self.epochs[left]

    def visible(self, first: int, last: int, epoch: int, *, own: bool) -> Tuples:
        """Rows of a range of times that came before an epoch, or with it if its own count too."""
        begin = int(np.searchsorted(self.rows.times, first))
        end = int(np.searchsorted(self.rows.times, last, "right"))
        brought = self.epochs[begin:end]
        seen = brought <= epoch if own else brought < epoch
        if seen.all():
            return self.rows.take(slice(begin, end))
        return self.rows.take(begin + np.flatnonzero(seen))

    def of_epoch(self, epoch: int) -> Tuples:
        return self.rows.take(self.epochs == epoch)
