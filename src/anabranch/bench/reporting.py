"""How a side tells the bench what it does: one JSON object a line, on its standard output.

The bench reads the lines as they come, so a side that has to be killed has said all that it had
finished. Whatever else a process prints there (a JVM may) is not JSON of ours and is passed over.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import TextIO

from anabranch.bench.measure import Batch

EVENT = "anabranch-bench"


@dataclass(frozen=True)
class Started:
    """The join begins now (the session is up, the query is planned)."""

    at: float


@dataclass(frozen=True)
class Finished:
    """Everything was read and joined."""


@dataclass(frozen=True)
class Failed:
    """It ended with an error."""

    message: str


Event = Started | Batch | Finished | Failed
KINDS: dict[str, type[Event]] = {
    "start": Started,
    "batch": Batch,
    "finish": Finished,
    "fail": Failed,
}


class Reporter:
    """Writes events to a stream of text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def start(self) -> None:
        self._write("start", Started(time.time()))

    def batch(self, batch: Batch) -> None:
        self._write("batch", batch)

    def finish(self) -> None:
        self._write("finish", Finished())

    def fail(self, message: str) -> None:
        self._write("fail", Failed(message))

    def _write(self, kind: str, event: Event) -> None:
        print(json.dumps({EVENT: kind, **asdict(event)}), file=self._stream, flush=True)


def parse(line: str) -> Event | None:
    """The event of a line, or None where the line is something else.

    >>> parse('{"anabranch-bench": "fail", "message": "out of memory"}')
    Failed(message='out of memory')
    >>> parse("WARN something")
    """
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict) or EVENT not in fields:
        return None
    return KINDS[fields.pop(EVENT)](**fields)
