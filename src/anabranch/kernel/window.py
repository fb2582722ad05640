"""How far the windows of rows reach, for many rows at once."""

from __future__ import annotations

import numpy as np

from anabranch.kernel.base import Ints
from anabranch.model.query import Stream


class Window:
    """The window of a stream, which may have been resized at some times."""

    def __init__(self, stream: Stream) -> None:
        self.longest = stream.longest
        self.varies = bool(stream.resized)
        self._since = np.array([since for since, _ in stream.resized], np.int64)
        self._windows = np.array([stream.window, *(w for _, w in stream.resized)], np.int64)

    def end(self, times: Ints) -> Ints:
        """The last time that a partner of a row may have, for rows of these times."""
        if not self.varies:
            return times + self.longest
        return times + self._windows[np.searchsorted(self._since, times, "right")]
