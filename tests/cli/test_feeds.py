"""The workload of LS05: the same for a seed, skewed as Zipf says, and turning with time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from anabranch.feeds import DIMENSIONS, ITEMS, Feed, popularity, set_sizes, three_feeds

STILL = Feed("still", seed=7, rate=4000, period=1e12)
"""So slow a turn that nothing moves: item and rank are the same."""


def items(table: pa.Table) -> Counter[int]:
    return Counter(table["items"].combine_chunks().flatten().to_pylist())


def test_a_seed_gives_the_same_rows_every_time() -> None:
    feed = three_feeds(seed=3, rate=50, window=8)[0]
    assert feed.tick(4, 0.5, origin=10**15) == feed.tick(4, 0.5, origin=10**15)


def test_another_seed_name_or_tick_gives_other_rows() -> None:
    first, second, _ = three_feeds(seed=3, rate=50, window=8)
    other = three_feeds(seed=4, rate=50, window=8)[0]
    sets = [
        table["items"].to_pylist()
        for table in (first.tick(0, 1), first.tick(1, 1), second.tick(0, 1), other.tick(0, 1))
    ]
    assert all(sets[i] != sets[j] for i in range(4) for j in range(i))


def test_only_times_depend_on_the_origin() -> None:
    early, late = STILL.tick(2, 0.01), STILL.tick(2, 0.01, origin=10**15)
    assert early.drop(["ts"]) == late.drop(["ts"])
    shifted = np.array(early["ts"].cast(pa.int64())) + 10**15
    assert shifted.tolist() == late["ts"].cast(pa.int64()).to_pylist()


def test_ticks_follow_each_other_without_gap_or_repetition() -> None:
    feed = Feed("odd", seed=1, rate=7.3, period=16)
    ticks = [feed.tick(number, 0.5) for number in range(40)]
    table = pa.concat_tables(ticks)
    assert table["id"].to_pylist() == list(range(146))
    times = table["ts"].cast(pa.int64()).to_pylist()
    assert times == sorted(times)
    assert all(0 <= time < 20_000_000 for time in times)


def test_sets_have_five_items_more_or_less_and_none_twice() -> None:
    sets = STILL.tick(0, 1)["items"].to_pylist()
    sizes = np.array([len(each) for each in sets])
    assert all(len(set(each)) == len(each) for each in sets)
    assert abs(sizes.mean() - 5) < 0.1
    assert abs(sizes.std() - 1) < 0.1
    assert sizes.min() >= 1


def test_no_set_is_empty_however_many_are_drawn() -> None:
    assert set_sizes(np.random.default_rng(0), 2_000_000).min() == 1


def test_items_are_as_popular_as_zipf_says() -> None:
    """The first item of a set is a plain draw, before any is left out as already taken."""
    first = Counter(each[0] for each in STILL.tick(0, 10)["items"].to_pylist())
    share = np.array([first[item] for item in range(1, ITEMS + 1)]) / first.total()
    assert np.abs(share - popularity(0.8)).max() < 0.01
    assert 2**0.8 * 0.9 < share[0] / share[1] < 2**0.8 * 1.1


@pytest.mark.parametrize(("second", "top"), [(0, 1), (4, 26), (8, 51), (12, 76), (16, 1)])
def test_the_popular_items_turn_once_in_a_period(second: int, top: int) -> None:
    feed = Feed("turning", seed=1, rate=50_000, period=16)
    # A twentieth of a second, in which the top item does not change.
    assert items(feed.tick(second * 20, 0.05)).most_common(1)[0][0] == top


def test_a_shifted_feed_is_where_the_other_was_before() -> None:
    news, blogs, posts = three_feeds(seed=1, rate=50_000, window=8)
    assert (news.period, blogs.shift, posts.shift) == (16, 10, 0)
    top = [
        items(feed.tick(number, 0.05)).most_common(1)[0][0]
        for feed, number in ((news, 4 * 20), (blogs, 14 * 20), (posts, 4 * 20))
    ]
    assert top == [26, 26, 26]


def test_embeddings_drift_with_the_popular_items() -> None:
    feed = Feed("turning", seed=1, rate=2000, period=16)
    middles = []
    for second in (0, 8, 16):
        vectors = np.array(feed.tick(second, 1)["embedding"].to_pylist())
        assert vectors.shape == (2000, DIMENSIONS)
        middles.append(vectors.mean(axis=0))
    there, back = (np.linalg.norm(middle - middles[0]) for middle in middles[1:])
    assert there > 0.3
    assert back < 0.05


def test_a_tick_without_rows_is_a_table_of_the_same_shape() -> None:
    assert STILL.tick(0, 0.0).schema == STILL.tick(0, 0.01).schema
