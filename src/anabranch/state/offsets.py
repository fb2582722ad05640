"""What Spark's log of offsets says of a batch: which sources gave it anything.

A source that is asked for a batch gives what it has, up to its limit. So one that gave nothing to
a batch had no row that was not read, when the batch began.
"""

from __future__ import annotations

from anabranch.state.files import Files

_NOTHING_YET = "-"
_BEFORE_THE_OFFSETS = 2
"""Lines of the log's file: its version, and what Spark notes of the batch."""


def sources_that_gave(files: Files, batch: int) -> list[bool] | None:
    """For each source, in the order of the query's plan, whether it moved on for this batch.

    None where the log does not tell, as for a run over static inputs.
    """
    after = _offsets(files, batch)
    if after is None:
        return None
    before = _offsets(files, batch - 1) if batch else [_NOTHING_YET] * len(after)
    if before is None or len(before) != len(after):
        return None
    return [one != other for one, other in zip(before, after, strict=True)]


def _offsets(files: Files, batch: int) -> list[str] | None:
    try:
        lines = files.read(f"spark/offsets/{batch}").decode().splitlines()
    except FileNotFoundError:
        return None
    return lines[_BEFORE_THE_OFFSETS:]
