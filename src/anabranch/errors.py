"""Everything that Anabranch raises on purpose, so that a caller can catch it by name."""

from __future__ import annotations


class AnabranchError(Exception):
    """The root of all errors below."""


class QueryError(AnabranchError):
    """The query is wrong: raised while it is being written, before any Spark job runs."""


class TermError(AnabranchError):
    """A term could not be evaluated on real rows: names the term and shows a few of them."""


class CheckpointError(AnabranchError):
    """The checkpoint, or an output, belongs to something else, or a file in it is damaged."""


class RunError(AnabranchError):
    """A run was ended from outside: says by what, and how to go on. See its `__context__`."""
