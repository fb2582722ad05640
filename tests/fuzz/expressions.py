"""Conditions over the columns of some streams, drawn by family and nested two deep."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.fuzz.values import COLLATIONS, NUMBERS, Column, literals

SIGNS = ("=", "=", "=", "<>", "<", "<=", ">", ">=", "<=>")
DEPTH = 2


@dataclass(frozen=True)
class Words:
    """Draws conditions: knows the columns of each stream, and the values that they hold."""

    chance: random.Random
    columns: Mapping[str, Sequence[Column]]
    values: Mapping[str, Sequence[str]]
    """By family."""

    # -- conditions --------------------------------------------------------------------------

    def condition(self, streams: Sequence[str], depth: int = DEPTH) -> str:
        """A condition that names all the streams, if it is not of one of them alone."""
        if depth and self.chance.random() < 0.3:
            return self._nested(streams, depth - 1)
        families = self._families(streams)
        family = self.chance.choice(families)
        roll = self.chance.random()
        if family == "number" and roll < 0.2:
            return self._band(streams)
        if family in ("number", "time", "string") and roll < 0.4:
            return self._other(streams, family)
        left, right = (self.value(s, family, depth) for s in self._two(streams))
        if family == "map<string,bigint>":
            left, right = (f"element_at({side}, 'a')" for side in (left, right))
        if family == "boolean" and roll < 0.5:
            return self.chance.choice((f"{left} OR {right}", f"NOT {left} AND {right}"))
        return f"{left} {self.chance.choice(SIGNS)} {right}"

    def _nested(self, streams: Sequence[str], depth: int) -> str:
        one, other = (self.condition(streams, depth) for _ in range(2))
        alone = self.condition([self.chance.choice(streams)], 0)
        return self.chance.choice(
            (
                f"{one} AND {other}",
                f"{one} OR {other}",
                f"({one}) OR ({other})",
                f"({one}) AND NOT ({alone})",
                f"({one}) OR ({alone})",
                f"NOT ({one})",
                f"NOT ({one} AND {other})",
                f"coalesce({one}, {other})",
                f"CASE WHEN {one} THEN {other} ELSE {alone} END",
                f"CASE WHEN {alone} THEN {one} END",
                f"if({alone}, {one}, {other})",
                f"({one}) IS NOT FALSE",
                f"({one}) IS NULL OR {other}",
                f"({one}) = ({other})",
                f"({one}) <=> ({alone})",
            )
        )

    def _band(self, streams: Sequence[str]) -> str:
        left, right = (self.value(s, "number", self.chance.choice((0, 0, 1)))
                       for s in self._two(streams))  # fmt: skip
        width = self.chance.choice(
            ("0", "1", "0.01", "0.5", "2", "1e0", "0.1D", "1e-7", "9007199254740993", "1BD",
             "0.99999999999999999999", "4L", "1.0")
        )  # fmt: skip
        sign = self.chance.choice(("<=", "<"))
        if self.chance.random() < 0.3:
            return f"{left} BETWEEN {right} - {width} AND {right} + {width}"
        return f"abs({left} - {right}) {sign} {width}"

    def _other(self, streams: Sequence[str], family: str) -> str:
        first, second = self._two(streams)
        one, two, three = (self.value(s, family, 1) for s in (first, second, second))
        if self.chance.random() < 0.5:
            return self.chance.choice(
                (
                    f"{one} BETWEEN {two} AND {three}",
                    f"{one} NOT BETWEEN {two} AND {three}",
                    f"{one} >= {two} AND {one} <= {three}",
                    f"{one} > {two} AND {one} < {three}",
                    f"{one} IN ({two}, {three}, {self.literal(family)})",
                    f"{one} NOT IN ({two}, {self.literal(family)})",
                    f"greatest({one}, {two}) = {three}",
                    f"nullif({one}, {two}) IS NULL",
                    f"coalesce({one}, {two}) <= {three}",
                    f"array_contains(array({one}, {three}), {two})",
                    f"struct({one}, 1) = struct({two}, 1)",
                    f"exists(array({one}, {three}), x -> x = {two})",
                )
            )
        special = {
            "number": (
                f"{one} + {two} > {three}", f"{one} - {two} = {self.literal(family)}",
                f"{one} * {two} <= {three}", f"{one} % {two} = 0", f"{one} / {two} >= 1",
                f"-{one} < {two}", f"abs({one}) = abs({two})", f"isnan({one} + {two})",
                f"{one} + {two} < 0", f"pmod({one}, {two}) > 0", f"hash({one}) = hash({two})",
                f"{one} - {two} BETWEEN -1 AND 1",
            ),
            "string": (
                f"concat({one}, {two}) LIKE '%a%'", f"{one} LIKE {two}", f"{one} || {two} = 'ab'",
                f"startswith({one}, {two})", f"contains({one}, {two})", f"{one} ILIKE {two}",
                f"instr({one}, {two}) > 0", f"length({one}) = length({two})",
                f"levenshtein({one}, {two}) < 2", f"upper({one}) = upper({two})",
                f"locate({one}, {two}) = 1", f"{one} = {two} COLLATE UTF8_LCASE",
            ),
            "time": (
                f"{one} - {two} < INTERVAL '1' DAY", f"{one} + INTERVAL '1' DAY >= {two}",
                f"datediff({one}, {two}) < 2", f"year({one}) = year({two})",
                f"hour({one}) = hour({two})", f"CAST({one} AS DATE) = CAST({two} AS DATE)",
                f"date_trunc('DAY', {one}) = {two}", f"{one} + INTERVAL '1' MONTH > {two}",
                f"months_between({one}, {two}) < 1", f"{_day(one)} < {_day(two)}",
            ),
        }  # fmt: skip
        return self.chance.choice(special[family])

    # -- values ------------------------------------------------------------------------------

    def value(self, stream: str, family: str, depth: int) -> str:
        """An expression over one stream."""
        plain = self._column(stream, family)
        if not depth or self.chance.random() < 0.6:
            return plain
        other = (
            self.literal(family)
            if self.chance.random() < 0.5
            else self.value(stream, family, depth - 1)
        )
        forms: dict[str, tuple[str, ...]] = {
            "number": (
                f"({plain} + {other})", f"({plain} - {other})", f"({plain} * 2)", f"(-{plain})",
                f"abs({plain})", f"({plain} % 3)", f"round({plain}, 1)", f"floor({plain})",
                f"CAST({plain} AS {self.chance.choice(NUMBERS)})", f"least({plain}, {other})",
                f"try_cast({plain} AS {self.chance.choice(NUMBERS)})", f"({plain} / 2)",
                f"CASE WHEN {plain} > 0 THEN {plain} ELSE {other} END", f"sign({plain})",
                f"try_add({plain}, {other})", f"try_divide({plain}, {other})", f"ceil({plain})",
                f"nvl({plain}, {other})", f"if({plain} IS NULL, 1, {plain})", f"sqrt(abs({plain}))",
            ),
            "string": (
                f"upper({plain})", f"lower({plain})", f"trim({plain})", f"substring({plain}, 1, 1)",
                f"concat({plain}, {other})", f"({plain} || 'a')", f"reverse({plain})",
                f"({plain} COLLATE {self.chance.choice(COLLATIONS)})", f"initcap({plain})",
                f"replace({plain}, 'a', 'b')", f"rtrim({plain})", f"left({plain}, 2)",
            ),
            "time": (
                f"({plain} + INTERVAL '1' DAY)", f"({plain} - INTERVAL '1' MONTH)",
                f"CAST({plain} AS DATE)", f"date_trunc('MONTH', {plain})", f"last_day({plain})",
                f"CAST({plain} AS TIMESTAMP)", f"CAST({plain} AS TIMESTAMP_NTZ)",
                f"date_add(CAST({plain} AS DATE), 1)",
            ),
            "boolean": (f"(NOT {plain})", f"({plain} OR false)", f"({plain} IS TRUE)"),
        }  # fmt: skip
        general = (f"coalesce({plain}, {other})", f"nullif({plain}, {other})")
        return self.chance.choice((*forms.get(family, ()), *general))

    def literal(self, family: str) -> str:
        """A value of a family, as it would be written in a condition."""
        if family == "number":
            return self.chance.choice(("0", "1", "2", "-1", "0.5", "1.5D", "3L", "1e0", "0.01"))
        if family == "time":
            return self.chance.choice(("DATE'2026-01-01'", "TIMESTAMP'2026-03-29 01:30:00'",
                                       "TIMESTAMP_NTZ'2026-01-01 00:00:00'"))  # fmt: skip
        kind = "string" if family == "string" else family
        return self.chance.choice(literals(kind, self.values[family]))

    def _column(self, stream: str, family: str) -> str:
        fitting = [c for c in self.columns[stream] if c.family == family]
        return f"{stream}.{self.chance.choice(fitting).name}"

    def _families(self, streams: Sequence[str]) -> list[str]:
        return sorted({column.family for column in self.columns[streams[0]]})

    def _two(self, streams: Sequence[str]) -> tuple[str, str]:
        one, other = (self.chance.sample(list(streams), 2) if len(streams) > 1
                      else (streams[0], streams[0]))  # fmt: skip
        return one, other


def _day(value: str) -> str:
    return f"unix_date(CAST({value} AS DATE))"
