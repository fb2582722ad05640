"""The Spark session of tests and soaks, and the environment that its JVM and workers start in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent

# Spark reads these when its JVM and its Python workers start, so they are set before any test runs.
# Workers run in this environment, not in the first `python3` on PATH.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
# The name of the machine may resolve to an address that nothing can connect to.
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
# A JVM that runs thousands of tiny jobs does not repay much compilation: it takes half of a core.
os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Functions that a test hands to Spark are found by workers under the name of the test's module.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)

SPARK = {
    # Two slots: enough for two hosts to meet, and what a small machine has.
    "spark.master": "local[2]",
    "spark.app.name": "anabranch tests",
    # Nobody looks at it, and it takes a port and a second.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The default of 200 would run 198 empty tasks after every shuffle of a tiny test.
    "spark.sql.shuffle.partitions": "2",
    # See SPARK_LOCAL_IP.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # In local mode the driver is the executor too; the default of 1g is short for 1M-row batches.
    "spark.driver.memory": "2g",
    # As the command line sets it. Tests on other clusters and of crashes have sessions of their
    # own, and go by TCP, which is Spark's default.
    "spark.python.unix.domain.socket.enabled": "true",
    # A timestamp in a test means the same on every machine.
    "spark.sql.session.timeZone": "UTC",
}


def session(warehouse: Path) -> SparkSession:
    """The session of this process."""
    builder = SparkSession.builder
    for name, value in SPARK.items():
        builder = builder.config(name, value)
    # The default is a folder in the working directory, which is the checkout.
    builder = builder.config("spark.sql.warehouse.dir", str(warehouse))
    made: SparkSession = builder.getOrCreate()
    # Warnings about what the tests do on purpose would bury the answer of a failing one.
    made.sparkContext.setLogLevel("ERROR")
    return made
