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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from anabranch.cli.jobfile import Source

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

STACK = "-Xss16m"
"""Stopping a query inside a Python `foreachBatch` nests deep enough in the stream's thread to
overflow Java's usual stack of 1 MB."""

SOCKETS = "spark.python.unix.domain.socket.enabled"
"""How the JVM talks to Python workers. By TCP, the default, some small packet of every Python
task waits 40 ms for an acknowledgement."""

LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{short}
"""
"""What Spark may write between the lines of a live view: errors, without their stacks. The
gateway's level is what a session from Python takes for its own."""


def settings(master: str, config: Mapping[str, str], *, ui: bool) -> dict[str, str]:
    """Spark's configuration for a command: our defaults, then what the user asked for.

    >>> settings("local[2]", {"spark.driver.extraJavaOptions": "-Xmx2g"}, ui=False)[JAVA_OPTIONS]
    '-Xmx2g -Xss16m'
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
    chosen |= config
    options = chosen.get(JAVA_OPTIONS, "")
    if "-Xss" not in options:
        options = f"{options} {STACK}".strip()
    return chosen | {JAVA_OPTIONS: options}


def is_local(master: str) -> bool:
    """Whether the driver and all executors run on this machine (`local[…]`, `local-cluster[…]`)."""
    return master.startswith("local")


@contextmanager
def spark_session(
    name: str, master: str, config: Mapping[str, str] | None = None, *, ui: bool = False
) -> Iterator[SparkSession]:
    """Open a session for one command and close it behind it."""
    # Workers must run the interpreter that has Anabranch and its dependencies; a user who has set
    # the variable (a cluster whose machines keep Python elsewhere) knows better.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # It writes a refused expression and its Java stack to the terminal; our message is enough.
    # Asked for by PySpark's own class: the first to name a logger decides of what class it is.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    chosen = settings(master, config or {}, ui=ui)
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
        if "log4j2.configurationFile" not in chosen[JAVA_OPTIONS]:
            file.write(LOGGING)
            file.flush()
            # Set before Java starts, because most of Spark's chatter is over once it is up.
            chosen[JAVA_OPTIONS] += f" -Dlog4j2.configurationFile={file.name}"
        builder = SparkSession.builder.appName(name).master(master)
        for key, value in chosen.items():
            builder = builder.config(key, value)
        try:
            spark = builder.getOrCreate()
        except PySparkException as error:
            raise AnabranchError(
                f"Spark did not start on {master}: {_first_line(error)}"
            ) from error
    try:
        yield spark
    finally:
        spark.stop()


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
