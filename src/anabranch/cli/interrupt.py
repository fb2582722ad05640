"""Ending a command from outside, in good order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """An event that is set when the user interrupts the command, or somebody asks it to end.

    PySpark's own answer to an interrupt calls Java from within whatever call to Java was under
    way, which breaks the connection that is needed for stopping well. So a first signal is only
    noted, for whoever looks at the event to act upon; a second one does what it always does.
    """
    requested = threading.Event()

    def note(number: int, _frame: FrameType | None) -> None:
        requested.set()
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
