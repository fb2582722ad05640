"""What Spark's Java process inherits from a command: where it writes, and which signals it minds.

PySpark starts Java itself and leaves no room for either, so it is arranged in the child process,
between its fork and its start.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LAYOUT = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = warn
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
"""What Spark writes to its log. The gateway's level is what a session from Python takes for its
own."""


@dataclass(frozen=True)
class Child:
    """How the Java process shall start."""

    stderr: int | None
    deaf: bool

    def arrange(self) -> None:
        if self.stderr is not None:
            os.dup2(self.stderr, 2)
        if self.deaf:
            # A signal to the process group reaches Java as well, which would end the session that
            # a command needs for stopping in good order. Java leaves alone what it finds ignored.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextmanager
def starting_java(log: Path | None, *, deaf: bool) -> Iterator[None]:
    """Java processes that start in here write to a file, if there is one, and ignore SIGTERM.

    They end with this process in any case: Spark's gateway watches its standard input.
    """
    global _child  # noqa: PLW0603 - a hook on fork cannot be given anything, nor be taken back
    file = None if log is None else log.open("ab")
    _child = Child(None if file is None else file.fileno(), deaf)
    try:
        yield
    finally:
        _child = None
        if file is not None:
            file.close()


def new_log() -> Path:
    """An empty file for Spark's log."""
    descriptor, name = tempfile.mkstemp(prefix="anabranch-spark-", suffix=".log")
    os.close(descriptor)
    return Path(name)


def _in_child() -> None:
    if _child is not None:
        _child.arrange()


_child: Child | None = None
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_in_child)
