"""Cases from a seed: some streams with rows, Spark's settings, and queries over them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from tests.fuzz.expressions import Words
from tests.fuzz.values import FAMILIES, Column, few, literals, null

NAMES = ("a", "b", "c", "d")
ZONES = ("UTC", "Europe/Zurich", "America/New_York", "Asia/Kathmandu")
STRATEGIES = ("auto", "central", "hash", "atr", "ctr", "psp")
FEWEST_ROWS, MOST_ROWS = 6, {2: 12, 3: 8, 4: 6}


@dataclass(frozen=True)
class Stream:
    """A stream: its rows are SQL literals, the id and the time first."""

    name: str
    window: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def sql(self) -> str:
        """The rows as a query."""
        names = ", ".join(("id", "ts", *(column.name for column in self.columns)))
        rows = ", ".join(f"({', '.join(row)})" for row in self.rows)
        return f"SELECT * FROM VALUES {rows} AS t({names})"  # noqa: S608 - of this file


@dataclass(frozen=True)
class Case:
    """A query, and all that its answer depends on."""

    settings: Mapping[str, str]
    streams: tuple[Stream, ...]
    terms: tuple[str, ...]
    strategy: str = "auto"

    @property
    def select(self) -> tuple[str, ...]:
        return tuple(f"{stream.name}.id AS {stream.name}" for stream in self.streams)


def cases(seed: int, queries: int) -> list[Case]:
    """Queries over the same streams."""
    chance = random.Random(seed)
    settings = {
        "spark.sql.session.timeZone": chance.choice(ZONES),
        "spark.sql.ansi.enabled": chance.choice(("true", "false")),
    }
    families = chance.sample(list(FAMILIES), 2)
    # Numbers, strings and times are what conditions are mostly about.
    families[0] = chance.choice(("number", "number", "string", "time"))
    families = list(dict.fromkeys(families))
    values = {family: few(chance, family) for family in families}
    number = chance.choice((2, 2, 2, 2, 3, 3, 4))
    streams = tuple(_stream(chance, name, number, values) for name in NAMES[:number])
    words = Words(chance, {stream.name: stream.columns for stream in streams}, values)
    return [
        Case(settings, streams, _terms(chance, words, number), chance.choice(STRATEGIES))
        for _ in range(queries)
    ]


def _stream(
    chance: random.Random, name: str, number: int, values: Mapping[str, list[str]]
) -> Stream:
    columns = []
    for family in values:
        kinds = FAMILIES[family]
        wanted = 1 if len(kinds) == 1 else chance.choice((2, 3))
        columns += [
            Column(f"{family[0]}{position}", chance.choice(kinds), family)
            for position in range(wanted)
        ]
    names = {column.name for column in columns}
    if len(names) < len(columns):  # two families with one first letter
        columns = [Column(f"{c.name}_{at}", c.type, c.family) for at, c in enumerate(columns)]
    rows = []
    for position in range(chance.randint(FEWEST_ROWS, MOST_ROWS[number])):
        seconds = chance.choice((0, 0, 1, 2))
        row = [str(position), f"TIMESTAMP'2026-01-01 00:00:0{seconds}Z'"]
        for column in columns:
            if chance.random() < 0.1:
                row.append(null(column.type))
            else:
                row.append(chance.choice(literals(column.type, values[column.family])))
        rows.append(tuple(row))
    window = chance.choice(("0 s", "1 s", "1 s", "5 s"))
    return Stream(name, window, tuple(columns), tuple(rows))


def _terms(chance: random.Random, words: Words, number: int) -> tuple[str, ...]:
    terms = [
        words.condition([NAMES[chance.randrange(position)], NAMES[position]])
        for position in range(1, number)
    ]
    if chance.random() < 0.2:
        terms.append(words.condition(chance.sample(NAMES[:number], 2)))
    if chance.random() < 0.1:
        terms.append(words.condition([chance.choice(NAMES[:number])], 1))
    if number > 2 and chance.random() < 0.15:
        terms.append(words.condition(chance.sample(NAMES[:number], 3)))
    return tuple(terms)
