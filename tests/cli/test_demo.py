"""The demo, as `make demo` runs it but shorter; and that its own check can fail."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.cli.demo import compare, results
from anabranch.cli.livefeed import LiveFeeds
from anabranch.feeds import three_feeds

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_the_demo_joins_live_feeds_and_agrees_with_the_reference(anabranch: Command) -> None:
    done = anabranch("demo", "--seconds", "6", "--seed", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    agreed = re.search(r"The run and the reference agree: ([\d,]+) results", done.stdout)
    assert agreed is not None
    assert int(agreed[1].replace(",", "")) > 0
    assert re.search(r"^batch \d+: ", done.stdout, re.MULTILINE)
    assert "Traceback" not in done.stderr


def test_the_check_sees_a_missing_and_a_repeated_result() -> None:
    expected = pa.table({"news": [1, 2], "blog": [1, 2], "post": [1, 2]})
    found = pa.table({"news": [1, 1], "blog": [1, 1], "post": [1, 1]})
    assert compare(expected, expected)[0]
    assert compare(found, expected) == (
        False,
        (
            "The run and the reference DISAGREE: 1 results are missing, 1 are too many: "
            "(2, 2, 2), (1, 1, 1)"
        ),
    )


def test_a_run_without_results_has_an_empty_table(tmp_path: Path) -> None:
    assert results(tmp_path).num_rows == results(tmp_path / "none").num_rows == 0


def test_live_feeds_write_every_row_once_and_some_out_of_order(tmp_path: Path) -> None:
    feeds = three_feeds(seed=1, rate=100, window=8)
    live = LiveFeeds(feeds, tmp_path / "feeds", seconds=1.0)
    with live:
        live.wait()
    assert live.ended
    for feed in feeds:
        files = sorted(live.directory(feed).iterdir())
        table = pa.concat_tables([pq.read_table(file) for file in files])
        assert sorted(table["id"].to_pylist()) == list(range(100))
        assert table["ts"].to_pylist() != sorted(table["ts"].to_pylist())
        assert live.written[feed.name] == 100
