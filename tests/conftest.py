"""What all tests share: one Spark session, and how Hypothesis searches."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from tests.session import session

# A first example may start Spark, so that no deadline is fair; the blob repeats a failure exactly.
settings.register_profile("quick", deadline=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("quick"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

SLOWEST = ("crash", "contract", "bench", "cli", "cluster", "spark")
"""Folders whose files are begun first: a worker that got a long one last would work alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests by folder, the slowest first; within a file they stay as they are."""

    def rank(item: pytest.Item) -> int:
        folder = item.path.parent.name
        return SLOWEST.index(folder) if folder in SLOWEST else len(SLOWEST)

    items.sort(key=rank)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of all tests, made when the first test asks for it."""
    made = session(tmp_path_factory.mktemp("warehouse"))
    yield made
    made.stop()
