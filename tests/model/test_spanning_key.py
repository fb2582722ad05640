"""Which equalities make a key by which all streams can be divided."""

from __future__ import annotations

from anabranch.model.query import Operand
from anabranch.model.spanning_key import Equality, spanning_key


def equality(term: int, left: str, right: str, *, exact: bool = True) -> Equality:
    operands = [Operand("abc".index(sql[0]), sql[2:]) for sql in (left, right)]
    return Equality(term, operands[0], operands[1], (left, right), exact)


def test_a_chain_of_equal_integers_is_the_key_itself() -> None:
    links = [equality(0, "a.k", "b.k"), equality(1, "b.k", "c.k")]
    assert spanning_key(3, links) == (("k", "k", "k"), (0, 1), None)


def test_different_keys_on_different_pairs_span_nothing() -> None:
    links = [equality(0, "a.k", "b.k"), equality(1, "b.j", "c.j")]
    assert spanning_key(3, links) == (None, (), None)


def test_other_types_are_hashed_and_checked() -> None:
    assert spanning_key(2, [equality(0, "a.s", "b.s", exact=False)]) == (
        None,
        (),
        (("a.s",), ("b.s",)),
    )


def test_several_keys_are_hashed_together_against_skew() -> None:
    links = [equality(0, "a.k", "b.k"), equality(1, "a.j", "b.j")]
    assert spanning_key(2, links) == (None, (), (("a.k", "a.j"), ("b.k", "b.j")))


def test_a_second_column_of_a_stream_in_the_class_is_checked() -> None:
    links = [equality(0, "a.k", "b.k"), equality(1, "a.j", "b.k")]
    assert spanning_key(2, links) == (("k", "k"), (0,), None)
