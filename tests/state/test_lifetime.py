"""How long segments live, and which ones are merged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.watermark import expired_before
from anabranch.state.compaction import Compaction
from anabranch.state.manifest import without_expired
from anabranch.state.segment import SegmentRef


def segment(first: int, last: int, rows: int = 1, name: str = "") -> SegmentRef:
    return SegmentRef(f"{first}-{last}-{name}", 0, rows, 100, first, last, 0)


@st.composite
def segments(draw: st.DrawFn) -> list[SegmentRef]:
    drawn = draw(
        st.lists(
            st.tuples(st.integers(0, 200), st.integers(0, 60), st.integers(1, 100)), max_size=30
        )
    )
    return [
        segment(first, first + span, rows, str(number))
        for number, (first, span, rows) in enumerate(drawn)
    ]


POLICIES = st.builds(
    Compaction, fewest=st.integers(2, 6), rows=st.integers(1, 400), parts=st.integers(1, 5)
)


def test_a_segment_lives_while_a_row_at_the_watermark_can_meet_its_last() -> None:
    refs = [segment(0, 89), segment(0, 90), segment(80, 91)]
    horizon = expired_before(100, 10)
    assert [ref.last for ref in without_expired(refs, horizon)] == [90, 91]


def test_before_there_is_a_watermark_nothing_expires() -> None:
    refs = (segment(-(10**18), -(10**18)),)
    assert without_expired(refs, expired_before(None, 10)) == refs


def test_a_window_of_nothing_keeps_what_is_as_old_as_the_watermark() -> None:
    refs = [segment(99, 99), segment(99, 100)]
    assert without_expired(refs, expired_before(100, 0)) == (segment(99, 100),)


@given(refs=segments(), watermark=st.integers(0, 300), window=st.integers(0, 100))
def test_a_segment_expires_exactly_when_no_timely_row_can_meet_any_of_its_rows(
    refs: list[SegmentRef], watermark: int, window: int
) -> None:
    alive = without_expired(refs, expired_before(watermark, window))
    for ref in refs:
        assert (ref in alive) == (watermark - ref.last <= window)


@given(refs=segments(), window=st.integers(1, 400), policy=POLICIES)
def test_what_is_merged_are_neighbours_within_the_limits(
    refs: list[SegmentRef], window: int, policy: Compaction
) -> None:
    run = policy.choose(refs, window)
    if not run:
        return
    assert len(run) >= policy.fewest
    assert sum(ref.rows for ref in run) <= policy.rows
    span = max(ref.last for ref in run) - min(ref.first for ref in run)
    assert span <= max(window // policy.parts, 1)
    ordered = sorted(refs, key=lambda ref: (ref.first, ref.last, ref.path))
    start = ordered.index(run[0])
    assert tuple(ordered[start : start + len(run)]) == run


@given(refs=segments(), window=st.integers(1, 400), policy=POLICIES, data=st.data())
def test_the_choice_does_not_depend_on_the_order_of_the_segments(
    refs: list[SegmentRef], window: int, policy: Compaction, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(refs))
    assert policy.choose(shuffled, window) == policy.choose(refs, window)


def test_small_segments_next_to_each_other_are_merged_oldest_first() -> None:
    policy = Compaction(fewest=3, rows=10, parts=2)
    refs = [segment(at, at + 4, rows=3) for at in range(0, 50, 5)]
    assert policy.choose(refs, window=40) == tuple(refs[:3])


def test_too_few_or_too_large_segments_are_left_alone() -> None:
    policy = Compaction(fewest=3, rows=10, parts=2)
    assert policy.choose([segment(0, 1), segment(1, 2)], window=100) == ()
    assert policy.choose([segment(at, at + 1, rows=6) for at in range(5)], window=100) == ()
    assert policy.choose([segment(at, at + 9) for at in range(0, 50, 10)], window=20) == ()
