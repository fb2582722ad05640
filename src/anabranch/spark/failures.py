"""What ends a run from outside, in a sentence: what happened, and what to do.

Spark reports a failure as a message of a hundred lines and more, most of it the Java and Python
stacks. What is known is said in one sentence; the trace goes to the logger `anabranch`, at DEBUG.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from anabranch.errors import LONGEST, AnabranchError, CheckpointError, RunError, TermError

log = logging.getLogger("anabranch")
log.addHandler(logging.NullHandler())

FROM_SPARK = (PySparkException, Py4JError, OSError)
"""What a call to Spark raises where Spark, or the way to it, has failed."""

AGAIN = "start again with the same checkpoint, which goes on where this run was"

_IN_TASKS: dict[str, type[AnabranchError]] = {
    "TermError": TermError,
    "CheckpointError": CheckpointError,
}


@dataclass(frozen=True)
class Known:
    """A failure that is recognized by its text; the pattern's groups stand in the sentence."""

    pattern: str
    sentence: str


JAVA_ENDED = (
    "Spark's Java process has ended: it was killed, or ran out of memory (spark.driver.memory). "
    f"To go on, {AGAIN}"
)

WORKER_ADVICE = (
    "set PYSPARK_PYTHON (before the Spark session is made) to a Python that has the driver's "
    "version and the same anabranch, on every machine of the cluster"
)

NOT_WRITABLE = (
    "{path} cannot be written or read ({reason}). Give the user of the run the right to, then "
    f"{AGAIN}"
)

KNOWN = (
    Known(
        r"\[PYTHON_VERSION_MISMATCH\][^:]*?(?P<worker>[0-9]+\.[0-9]+)\D+?(?P<driver>[0-9]+\.[0-9]+)",
        f"Spark's workers run Python {{worker}}, and the driver runs {{driver}}: {WORKER_ADVICE}",
    ),
    Known(
        r"No module named '(?P<module>(?:anabranch|numpy|pyarrow|pandas|duckdb|scipy|sqlglot)\b"
        r"[\w.]*)'",
        f"Spark's workers cannot import {{module}}: {WORKER_ADVICE}, or install it there",
    ),
    Known(
        r"Cannot run program \"(?P<program>[^\"]*python[^\"]*)\"",
        f"Spark cannot run {{program}} for its workers: {WORKER_ADVICE}",
    ),
    Known(
        r"There are \[(?P<before>[0-9]+)\] sources in the checkpoint offsets and now there are "
        r"\[(?P<now>[0-9]+)\]",
        "the checkpoint {checkpoint} is of a run over {before} streaming sources, and this query "
        "has {now}. Use the inputs that it was made with, or a new checkpoint",
    ),
    Known(
        r"No space left on device|Disk quota exceeded",
        "a disk is full on which the run writes (its checkpoint {checkpoint}, its sink, or Spark's "
        f"scratch directories). Free some space, then {AGAIN}",
    ),
    Known(
        r"\[Errno (?:1|13|30)\] (?P<reason>[^:\n]+): '(?P<path>[^'\n]+)'",
        NOT_WRITABLE,
    ),
    Known(
        r"(?P<path>/[^\s:'\"]+) \((?P<reason>Permission denied|Read-only file system|"
        r"Operation not permitted)\)|AccessDeniedException: (?P<denied>[^\s:]+)",
        NOT_WRITABLE,
    ),
    Known(
        r"Mkdirs failed to create (?:file:)?(?P<path>/[^\s]+)",
        "the directory {path} cannot be made. Give the user of the run the right to, or see what "
        f"is in its place, then {AGAIN}",
    ),
    Known(
        r"\[Errno 20\] Not a directory: '(?P<path>[^'\n]+)'|"
        r"ParentNotDirectoryException: Parent path is not a directory: (?:file:)?(?P<parent>\S+)",
        "{path} cannot be made, because a file is in the place of one of its directories. Choose "
        "another path, or move that file",
    ),
    Known(
        r"Python worker exited unexpectedly|Python worker process terminated|"
        r"Python process terminated|Failed to send data to Python",
        "a Python worker of Spark ended unexpectedly: it was killed, perhaps by the system for "
        "want of memory (give it more, or use fewer slots), or it crashed in native code. To go "
        f"on, {AGAIN}",
    ),
    Known(
        r"SparkContext was shut down|stopped SparkContext|SparkContext is stopping",
        f"the Spark session was stopped while the run needed it. To go on, {AGAIN}",
    ),
)
"""The first one that is found says it; causes stand before what follows from them."""


def in_words(error: BaseException, checkpoint: str) -> BaseException:
    """A failure as one sentence where it is known, otherwise the error itself.

    The error stays within reach as the context of the sentence.
    """
    if isinstance(error, AnabranchError):
        return error
    if _java_has_ended(error):
        return _said(JAVA_ENDED, error)
    text = _text_of(error)
    ours = re.search(r"anabranch\.errors\.(\w+): (.*)", text)
    if ours and ours[1] in _IN_TASKS:
        return _IN_TASKS[ours[1]](ours[2].strip())
    for known in KNOWN:
        found = re.search(known.pattern, text)
        if found:
            groups = {name: value for name, value in found.groupdict().items() if value}
            groups.setdefault("path", groups.get("denied") or groups.get("parent") or "")
            groups.setdefault("reason", "Permission denied")
            return _said(known.sentence.format(checkpoint=checkpoint, **groups), error)
    return error


def short(error: BaseException, batch: int) -> RunError:
    """What Spark is told of a failed batch: it repeats every line of it, several times."""
    if isinstance(error, AnabranchError):
        return RunError(str(error))
    return RunError(f"batch {batch} failed: {first_line(error)}")


def first_line(error: BaseException) -> str:
    r"""The first line of an error's message, without Spark's codes.

    >>> first_line(ValueError("[SOME.CODE] The row is wrong. SQLSTATE: 42000\n and much more"))
    'ValueError: The row is wrong'
    """
    lines = _text_of(error).strip().splitlines() or [""]
    line = re.sub(r"^\[[\w.]+\] |\.? SQLSTATE: .*$", "", lines[0])
    return f"{type(error).__name__}: {line}"[:LONGEST]


@contextmanager
def said_in_words(checkpoint: str) -> Iterator[None]:
    """What fails in here is raised in words."""
    try:
        yield
    except FROM_SPARK as error:
        note(error)
        said = in_words(error, checkpoint)
        if said is error:
            raise
        raise said from None


def note(error: BaseException) -> None:
    """Log the whole of an error, for whoever looks for more than a sentence."""
    if log.isEnabledFor(logging.DEBUG):
        try:
            log.debug("the run failed", exc_info=error)
        except FROM_SPARK:  # an error of Java's asks Java for its text
            log.debug("the run failed with %s", type(error).__name__)


def _said(sentence: str, error: BaseException) -> RunError:
    said = RunError(sentence)
    said.__context__, said.__suppress_context__ = error, True
    return said


def _text_of(error: BaseException) -> str:
    try:
        return f"{error}\n{getattr(error, '_stackTrace', '')}"
    except FROM_SPARK:
        return type(error).__name__


def _java_has_ended(error: BaseException) -> bool:
    """Whether the way to Java is gone. A sink of the user's may lose connections of its own."""
    if isinstance(error, Py4JNetworkError):
        return True
    if not isinstance(error, ConnectionError | EOFError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and "py4j" in frames[-1].filename
