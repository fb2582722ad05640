"""The Spark session of a command, and the frames that a job file's streams are read from.

This is the one place of the command line that knows pyspark. A program that uses the library
brings its own session; these settings are only what a command on a laptop needs.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseServer
from typing import TYPE_CHECKING

from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from anabranch.cli.sparklog import LAYOUT, new_log, starting_java
from anabranch.errors import AnabranchError, RunError
from anabranch.spark.failures import FROM_SPARK, first_line, in_words, note

if TYPE_CHECKING:
    from anabranch.cli.jobfile import Source

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

SOCKETS = "spark.python.unix.domain.socket.enabled"
"""How the JVM talks to Python workers. By TCP, the default, some small packet of every Python
task waits 40 ms for an acknowledgement."""


def settings(master: str, config: Mapping[str, str], *, ui: bool) -> dict[str, str]:
    """Spark's configuration for a command: our defaults, then what the user asked for.

    >>> settings("local[2]", {SOCKETS: "false"}, ui=False)[SOCKETS]
    'false'
    """
    chosen = {
        "spark.ui.enabled": str(ui).lower(),
        # Spark's own progress bar writes over the lines of the live view.
        "spark.ui.showConsoleProgress": "false",
        SOCKETS: str(hasattr(socket, "AF_UNIX")).lower(),
    }
    if is_local(master):
        # The machine's own name may resolve to an address that nothing listens on (containers,
        # laptops that change networks); a local run needs no other address than this one.
        chosen["spark.driver.host"] = "127.0.0.1"
        chosen["spark.driver.bindAddress"] = "127.0.0.1"
    return chosen | dict(config)


def is_local(master: str) -> bool:
    """Whether the driver and all executors run on this machine (`local[…]`, `local-cluster[…]`)."""
    return master.startswith("local")


@contextmanager
def spark_session(
    name: str,
    master: str,
    config: Mapping[str, str] | None = None,
    *,
    ui: bool = False,
    verbose: bool = False,
) -> Iterator[SparkSession]:
    """Open a session for one command and close it behind it.

    What fails in it is raised as one sentence. Spark's own log goes to a file, which is kept and
    named where a run fails; to the terminal where `verbose`.
    """
    log = None if verbose else new_log()
    chosen = settings(master, config or {}, ui=ui)
    try:
        # Executors on this machine are children of Java, and end by the signal that it ignores.
        with starting_java(log, deaf=not master.startswith("local-cluster")):
            spark = _start(name, master, chosen)
        try:
            yield spark
        finally:
            _stop(spark)
    except RunError as error:
        raise _with_log(error, log) from None
    except AnabranchError:
        _forget(log)
        raise
    except Exception as error:  # noqa: BLE001 - a command fails in one sentence
        note(error)
        said = in_words(error, "of the job")
        if not isinstance(said, AnabranchError):
            said = RunError(f"the run failed: {first_line(error)}")
        raise _with_log(said, log) from None
    except BaseException:
        _forget(log)
        raise
    _forget(log)


def _start(name: str, master: str, chosen: dict[str, str]) -> SparkSession:
    # Workers must run the interpreter that has Anabranch and its dependencies; a user who has set
    # the variable (a cluster whose machines keep Python elsewhere) knows better.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # It writes a refused expression and its Java stack to the terminal; our message is enough.
    # Asked for by PySpark's own class: the first to name a logger decides of what class it is.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    # They print 23 lines when Java goes; whoever asks Java for something notices as well.
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = _keep_quiet  # type: ignore[assignment, method-assign] # there is no other way
    options = chosen.get(JAVA_OPTIONS, "")
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
        if "log4j2.configurationFile" not in options:
            file.write(LAYOUT)
            file.flush()
            # Set before Java starts, because most of Spark's chatter is over once it is up.
            chosen[JAVA_OPTIONS] = f"{options} -Dlog4j2.configurationFile={file.name}".strip()
        builder = SparkSession.builder.appName(name).master(master)
        for key, value in chosen.items():
            builder = builder.config(key, value)
        try:
            return builder.getOrCreate()
        except PySparkException as error:
            note(error)
            raise RunError(f"Spark did not start on {master}: {_first_line(error)}") from None


def _keep_quiet(_server: BaseServer, _request: object, _address: object) -> None:
    logging.getLogger("anabranch").debug("Java has left")


def _stop(spark: SparkSession) -> None:
    """Close a session, which may have ended by itself."""
    with warnings.catch_warnings(), suppress(*FROM_SPARK):
        warnings.simplefilter("ignore", RuntimeWarning)  # "unable to cleanly shut down"
        spark.stop()


def _with_log(error: AnabranchError, log: Path | None) -> AnabranchError:
    if log is not None:
        error.add_note(f"(Spark's own log: {log})")
    return error


def _forget(log: Path | None) -> None:
    if log is not None:
        log.unlink(missing_ok=True)


def ui_address(spark: SparkSession) -> str | None:
    """Where the Spark UI of this session is, if it has one."""
    address: str | None = spark.sparkContext.uiWebUrl
    return address


def static_frame(spark: SparkSession, path: str) -> DataFrame:
    """The Parquet files that are under a path now, as a bounded input."""
    return spark.read.parquet(path)


def file_stream(spark: SparkSession, path: str, schema: str) -> DataFrame:
    """The Parquet files that are and will be under a path, as a stream."""
    return spark.readStream.schema(schema).parquet(path)


def source_frame(spark: SparkSession, source: Source) -> DataFrame:
    """The streaming frame that a job file's `[[stream]]` describes."""
    try:
        reader = spark.readStream.format(source.format).options(**source.options)
        if source.path is None:
            frame = reader.load()
        else:
            schema = source.schema or spark.read.parquet(source.path).schema
            frame = reader.schema(schema).load(source.path)
        return frame.selectExpr(*source.sql) if source.sql else frame
    except PySparkException as error:
        raise AnabranchError(f"{source.place}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """Spark's message without its codes, and without the plan and the stack that follow it."""
    text = str(error).strip() or type(error).__name__
    return re.sub(r"^\[[\w.]+\] |\.? SQLSTATE: .*$", "", text.splitlines()[0])
