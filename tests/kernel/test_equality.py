"""Codes: the hash of a key in front, the time behind."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernel.equality import GROUPS, code_index, find, group_bounds, mix

keys = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30)


@given(keys)
def test_distinct_keys_stay_distinct_when_mixed(values: list[int]) -> None:
    distinct = np.array(sorted(set(values)), np.int64)
    assert len(np.unique(mix(distinct))) == len(distinct)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-(10**15), 10**15)), min_size=1, max_size=40),
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(-(10**15), 10**15), st.integers(0, 10**15)),
        max_size=20,
    ),
)
def test_every_row_with_the_key_in_the_times_is_found(
    rows: list[tuple[int, int]], probes: list[tuple[int, int, int]]
) -> None:
    row_keys = np.array([key for key, _ in rows], np.int64)
    times = np.array([time for _, time in rows], np.int64)
    order, index = code_index(row_keys, times)
    probe_keys = np.array([key for key, _, _ in probes], np.int64)
    low = np.array([time for _, time, _ in probes], np.int64)
    high = low + np.array([span for _, _, span in probes], np.int64)
    found = {
        (int(p), int(order[r]))
        for probe, position in find(index, probe_keys, low, high)
        for p, r in zip(probe, position, strict=True)
    }
    wanted = {
        (p, r)
        for p, (key, _, _) in enumerate(probes)
        for r in range(len(rows))
        if row_keys[r] == key and low[p] <= times[r] <= high[p]
    }
    assert wanted <= found


def test_groups_are_neighbouring_slices_that_cover_everything() -> None:
    values = np.arange(10_000)
    _, index = code_index(values, values)
    bounds = group_bounds(index["codes"])
    assert bounds[0] == 0
    assert bounds[-1] == len(values)
    assert len(bounds) == GROUPS + 1
    sizes = np.diff(bounds)
    assert sizes.min() > 10
    assert sizes.max() < 90
