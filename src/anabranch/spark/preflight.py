"""Before a run: Spark's workers must have the driver's Python and the same Anabranch.

Otherwise the first batch fails in each of its tasks, a hundred lines every time.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
import weakref
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.errors import RunError
from anabranch.spark.failures import FROM_SPARK, WORKER_ADVICE, in_words, note

_checked: weakref.WeakSet[SparkSession] = weakref.WeakSet()


def check_workers(spark: SparkSession, slots: int) -> None:
    """Ask a worker per slot for its Python and its Anabranch, once per session.

    Raises RunError, in a sentence, where they are not the driver's.
    """
    if spark in _checked:
        return
    describe = _describer()
    here = json.loads(describe(0))
    # Rows by pickle, not by Arrow: a worker without pyarrow shall be able to say so.
    asked = F.udf(describe, "string", useArrow=False)(F.col("id"))
    try:
        answers = spark.range(0, slots, 1, slots).select(asked.alias("worker")).collect()
    except FROM_SPARK as error:
        note(error)
        raise in_words(error, "") from None
    for answer in {row["worker"] for row in answers}:
        _compare(here, json.loads(answer))
    _checked.add(spark)


def _compare(here: dict[str, Any], there: dict[str, Any]) -> None:
    where = f"{there['executable']} on {there['machine']}"
    if there["trouble"]:
        found = f"cannot import anabranch ({there['trouble']})"
    elif there["python"] != here["python"]:
        found = f"is Python {there['python']}, and the driver's is {here['python']}"
    elif there["version"] != here["version"]:
        found = f"has anabranch {there['version']}, and the driver has {here['version']}"
    else:
        return
    raise RunError(f"Spark's workers run {where}, which {found}: {WORKER_ADVICE}")


def _describer() -> Callable[[int], str]:
    """A function that Spark ships whole: by its name, it would need Anabranch to be loaded."""

    def describe(_slot: int) -> str:
        version = trouble = None
        try:
            version = importlib.import_module("anabranch").__version__
        except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the sentence
            trouble = f"{type(error).__name__}: {error}"
        return json.dumps(
            {
                "python": ".".join(platform.python_version_tuple()[:2]),
                "executable": sys.executable,
                "machine": platform.node(),
                "version": version,
                "trouble": trouble,
            }
        )

    return describe
