"""The key that spans all streams: columns that are equal on every stream in every result.

Equalities link columns into classes. A class with a column of every stream is a key by which
rows can be divided: rows with different keys never meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.model.query import Operand


@dataclass(frozen=True)
class Equality:
    """An equality term: its position, its operands, their SQL, and whether 64 bits hold them."""

    term: int
    left: Operand
    right: Operand
    sqls: tuple[str, str]
    exact: bool


def spanning_key(
    streams: int, equalities: Sequence[Equality]
) -> tuple[tuple[str, ...] | None, tuple[int, ...], tuple[tuple[str, ...], ...] | None]:
    """The key's column on each stream, the terms it decides, and what to hash where it must be.

    One class of 64-bit values is the key itself. Several classes, or values of other types, are
    hashed together: then the third part lists the SQL to hash on each stream, and every term
    remains to be checked.
    """
    classes = [c for c in _classes(equalities) if {o.stream for o in c} == set(range(streams))]
    if not classes:
        return None, (), None
    chosen = [_one_a_stream(members, streams) for members in classes]
    sqls = {e.left: e.sqls[0] for e in equalities} | {e.right: e.sqls[1] for e in equalities}
    exact = {e.left for e in equalities if e.exact} | {e.right for e in equalities if e.exact}
    if len(chosen) == 1 and all(operand in exact for operand in chosen[0]):
        members = set(chosen[0])
        decided = tuple(e.term for e in equalities if {e.left, e.right} <= members)
        return tuple(operand.column for operand in chosen[0]), decided, None
    hashed = tuple(
        tuple(sqls[operands[stream]] for operands in chosen) for stream in range(streams)
    )
    return None, (), hashed


def _classes(equalities: Sequence[Equality]) -> list[list[Operand]]:
    classes: list[list[Operand]] = []
    for equality in equalities:
        linked = [c for c in classes if equality.left in c or equality.right in c]
        merged = [operand for members in linked for operand in members]
        merged += [o for o in (equality.left, equality.right) if o not in merged]
        classes = [c for c in classes if c not in linked] + [merged]
    return classes


def _one_a_stream(members: Sequence[Operand], streams: int) -> tuple[Operand, ...]:
    return tuple(next(o for o in members if o.stream == stream) for stream in range(streams))
