"""Everything that Anabranch raises on purpose, so that a caller can catch it by name."""

from __future__ import annotations

LONGEST = 1000
"""Characters of a message: more is not read."""


class AnabranchError(Exception):
    """The root of all errors below. A message that is too long loses its middle."""

    def __init__(self, message: str = "") -> None:
        half = LONGEST // 2 - 1
        long = len(message) > LONGEST
        super().__init__(f"{message[:half]}…{message[-half:]}" if long else message)


class QueryError(AnabranchError):
    """The query is wrong: raised while it is being written, before any Spark job runs."""


class TermError(AnabranchError):
    """A term could not be evaluated on real rows: names the term and shows a few of them."""


class CheckpointError(AnabranchError):
    """The checkpoint, or an output, belongs to something else, or a file in it is damaged."""


class RunError(AnabranchError):
    """A run was ended from outside: says by what, and how to go on. See its `__context__`."""
