"""One Spark session for all cases of a soak, and directories that outlive a case."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from tests.session import session


@cache
def spark() -> SparkSession:
    made = session(scratch("warehouse"))
    # Damage makes Spark log what the outcome tells anyway.
    made.sparkContext.setLogLevel("OFF")
    return made


def scratch(name: str) -> Path:
    """A directory that is deleted when the soak ends."""
    directory = tempfile.mkdtemp(prefix=f"anabranch-{name}-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)
