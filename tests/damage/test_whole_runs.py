"""A job whose checkpoint or output was damaged is refused, or gives its exact answer; by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.damage.damages import DAMAGES, HARMLESS
from tests.damage.stage import EXACT, Stage

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def stage(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage.build(spark, tmp_path_factory.mktemp("stage"))


def test_an_undamaged_copy_goes_on_and_is_exact(stage: Stage, tmp_path: Path) -> None:
    assert stage.expected.total() > 1000
    assert stage.outcome(tmp_path).name == EXACT


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_refused_or_the_answer_exact(stage: Stage, tmp_path: Path, name: str) -> None:
    outcome = stage.outcome(tmp_path, DAMAGES[name])
    assert outcome.good, f"{name}: {outcome.why}"
    if name in HARMLESS:
        assert outcome.name == EXACT, outcome.why
