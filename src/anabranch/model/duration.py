"""Durations as people write them ("10 minutes"), kept as whole microseconds."""

from __future__ import annotations

import re
from datetime import timedelta

from anabranch.errors import QueryError

MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_ABBREVIATED = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "d": "day",
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")

LONGEST = 1 << 60
"""Microseconds: with room to add two of them to a time."""

Duration = str | timedelta


def microseconds(duration: Duration, what: str) -> int:
    """Parse a duration; `what` names the argument in the error.

    >>> microseconds("1 minute 30 seconds", "window")
    90000000
    """
    if isinstance(duration, timedelta):
        total = duration // timedelta(microseconds=1)
    elif isinstance(duration, str) and duration.strip():
        total = _parse(duration, what)
    else:
        raise QueryError(f'{what} is {duration!r}; write it like "10 minutes"')
    if total < 0:
        raise QueryError(f"{what} is negative: {duration!r}")
    if total > LONGEST:
        raise QueryError(f"{what} is {duration!r}, longer than 30,000 years")
    return total


def _parse(text: str, what: str) -> int:
    total = 0.0
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        unit = part and part[2].lower()
        unit = _ABBREVIATED.get(unit, unit.rstrip("s")) if unit else None
        if part is None or unit not in MICROSECONDS:
            units = ", ".join(f"{name}s" for name in MICROSECONDS)
            raise QueryError(f'{what} is "{text}"; write it like "10 minutes" (units: {units})')
        total += float(part[1]) * MICROSECONDS[unit]
        position = part.end()
    if 0 < total < 1:
        raise QueryError(f'{what} is "{text}", which is shorter than a microsecond')
    return round(total)


def readable(duration: int) -> str:
    """The shortest exact way to say a number of microseconds.

    >>> readable(90_000_000), readable(600_000_000), readable(0)
    ('90 seconds', '10 minutes', '0 seconds')
    """
    if duration == 0:
        return "0 seconds"
    for unit, size in reversed(MICROSECONDS.items()):
        if duration % size == 0:
            count = duration // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    raise AssertionError("every whole number is a count of microseconds")
