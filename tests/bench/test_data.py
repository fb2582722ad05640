"""The input of the bench depends on its configuration and on nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from anabranch.bench import data
from anabranch.bench.cases import CASES, Case
from anabranch.bench.data import EPOCH, generate, path_of, rows_of

NAMES = list(CASES)


def quick(name: str) -> Case:
    return CASES[name].quick()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_configuration_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    case = quick(name)

    first, second = generate(case, tmp_path / "1"), generate(case, tmp_path / "2")

    files = sorted(path.relative_to(first) for path in first.rglob("*.parquet"))
    assert len(files) == len(case.rows) * len(case.feeds)
    for file in files:
        assert pq.read_table(first / file).equals(pq.read_table(second / file))


@pytest.mark.parametrize("name", NAMES)
def test_streams_and_seconds_have_rows_of_their_own(name: str) -> None:
    case = quick(name)

    assert not rows_of(case, 0, 0).equals(rows_of(case, 1, 0))
    assert not rows_of(case, 0, 0).equals(rows_of(case, 0, 1))


def test_rows_are_disordered_within_their_second_and_never_beyond_it() -> None:
    times = rows_of(quick("equality-2way"), feed=0, second=3)["ts"].cast("int64").to_pylist()

    assert times != sorted(times)
    assert {time // 1_000_000 for time in times} == {EPOCH + 3}


def test_ids_go_on_from_file_to_file() -> None:
    case = quick("equality-2way")

    ids = [row for second in range(3) for row in rows_of(case, 0, second)["id"].to_pylist()]

    assert ids == list(range(sum(case.rows[:3])))


def test_files_are_as_old_as_their_rows_so_that_spark_takes_them_in_order(tmp_path: Path) -> None:
    case = quick("overlap-3way")

    files = sorted((generate(case, tmp_path) / "b").iterdir())

    assert [file.stat().st_mtime for file in files] == [EPOCH + s for s in range(len(case.rows))]


def test_what_was_generated_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = quick("band-2way")
    first = generate(case, tmp_path)
    monkeypatch.setattr(data, "rows_of", None)  # would fail if it were called

    assert generate(case, tmp_path) == first


def test_another_configuration_has_another_place(tmp_path: Path) -> None:
    case = quick("band-2way")

    assert path_of(replace(case, rows=(*case.rows, 1)), tmp_path) != path_of(case, tmp_path)


def test_nothing_is_left_of_a_generation_that_failed(tmp_path: Path) -> None:
    def fail(second: int) -> None:
        raise OSError(f"no space left in second {second}")

    with pytest.raises(OSError, match="second 0"):
        generate(quick("band-2way"), tmp_path, fail)

    assert list(tmp_path.iterdir()) == []


def test_vectors_have_forty_dimensions_and_sets_no_item_twice() -> None:
    vectors = rows_of(quick("distance-2way"), 0, 0)["v"]
    sets = rows_of(quick("overlap-3way"), 0, 0)["s"].to_pylist()

    assert pc.unique(pc.list_value_length(vectors)).to_pylist() == [40]
    assert all(len(set(items)) == len(items) and set(items) <= set(range(1, 101)) for items in sets)
