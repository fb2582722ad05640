"""Codes: the hash of a key in front, the time behind."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernel.equality import GROUPS, TIME_BITS, code_index, find, group_bounds, mix

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


def unmixed(code: int) -> int:
    """The key whose mixed value this is."""
    code ^= code >> 31 ^ code >> 62
    code = code * pow(0x94D0_49BB_1331_11EB, -1, 2**64) % 2**64
    code ^= code >> 27 ^ code >> 54
    code = code * pow(0xBF58_476D_1CE4_E5B9, -1, 2**64) % 2**64
    code ^= code >> 30 ^ code >> 60
    return code - 2**64 if code >= 2**63 else code


# Of two prefixes, three keys each: codes do not tell keys of one prefix apart.
COLLIDING = [unmixed((prefix << TIME_BITS) + low) for prefix in (7, 2**39) for low in (0, 1, 99)]


@given(st.lists(st.sampled_from(COLLIDING)), st.lists(st.sampled_from(COLLIDING)))
def test_keys_with_the_same_code_are_told_apart(rows: list[int], probes: list[int]) -> None:
    row_keys, probe_keys = np.array(rows, np.int64), np.array(probes, np.int64)
    order, index = code_index(row_keys, np.arange(len(rows)))
    low, high = np.zeros(len(probes), np.int64), np.full(len(probes), len(rows))
    found = sorted(
        (int(p), int(order[r]))
        for probe, position in find(index, probe_keys, low, high, row_keys[order])
        for p, r in zip(probe, position, strict=True)
    )
    assert found == [
        (p, r) for p in range(len(probes)) for r in range(len(rows)) if probes[p] == rows[r]
    ]


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
