"""The job file of `anabranch run` and `anabranch explain`: a join written as TOML.

Relative paths start at the file's own directory; what is marked as optional can be left out. A job
file is code: its SQL can call Java methods, so only those who may run programs may write one.

    [[stream]]                        # two to nine of them
    name = "orders"
    format = "json"                   # parquet, json, csv or rate
    path = "data/orders"              # not for rate
    schema = "id INT, ts TIMESTAMP"   # Spark DDL; Parquet files bring their own
    sql = ["id", "ts"]                # optional: select expressions over what was read
    options = {maxFilesPerTrigger = 1}  # optional: of Spark's source
    time = "ts"
    window = "10 minutes"
    lateness = "30 seconds"           # optional
    idle = "10 minutes"               # optional: go on without a stream that is silent for so long

    [join]
    on = ["orders.id = clicks.id", {within = ["orders.v", "clicks.v"], distance = 0.35}]
    select = ["orders.id", "clicks.ts AS clicked"]

    [run]                             # for `run` only
    sink = "out"
    checkpoint = "checkpoint"
    late = "late"                     # optional: where late rows go
    dead = "dead"                     # optional: where rows go that a term cannot handle
    append = true                     # optional: go on in outputs that other checkpoints made
    late_warning = 0.01               # optional: without `late`, the share of them that is logged
    strategy = "auto"                 # optional, and so are
    hosts = 2                         #   hosts and
    trigger = "1 second"              #   trigger (or "available now": take what is there, then end)

    [spark]                           # optional
    master = "local[*]"
    config = {"spark.driver.memory" = "4g"}
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from anabranch.cli.tables import JobError, Table, toml
from anabranch.errors import QueryError
from anabranch.model import terms
from anabranch.model.duration import microseconds

T = TypeVar("T")

FORMATS = ("parquet", "json", "csv", "rate")
AVAILABLE_NOW = "available now"

TERMS: Mapping[str, tuple[Callable[..., terms.Request], Mapping[str, str]]] = {
    "equal": (terms.equal, {}),
    "band": (terms.band, {"width": "10"}),
    "within": (terms.within, {"distance": "0.35"}),
    "cosine": (terms.cosine, {"at_least": "0.9"}),
    "inner_product": (terms.inner_product, {"at_least": "2.5"}),
    "overlap": (terms.overlap, {"at_least": "3"}),
    "jaccard": (terms.jaccard, {"at_least": "0.5"}),
    "alike": (terms.alike, {"at_least": "0.9", "tolerance": "16"}),
}
"""Terms that a table can write: what makes them, and examples of the numbers that they take."""


@dataclass(frozen=True)
class Source:
    """One `[[stream]]`: where its rows come from, and how they take part in the join."""

    place: str
    name: str
    format: str
    time: str
    window: str
    slack: Mapping[str, str] = field(default_factory=dict)
    """Lateness and idle time, as far as they are written; the library has the defaults."""
    path: str | None = None
    schema: str | None = None
    sql: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Running:
    """`[run]`: where results and state go, and how the work is done."""

    sink: str
    checkpoint: str
    late: str | None
    dead: str | None
    append: bool
    """Whether to go on in outputs that other checkpoints made."""
    options: Mapping[str, Any]
    """What else `start` takes, as far as it is written; the library has the defaults."""


@dataclass(frozen=True)
class Job:
    """A whole job file."""

    name: str
    streams: tuple[Source, ...]
    on: tuple[str | terms.Request, ...]
    select: tuple[str, ...]
    running: Running | None
    master: str
    config: Mapping[str, str]


def read_job(path: Path) -> Job:
    """Read and check a job file; relative paths in it start at its own directory."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"{path} cannot be read: {error}") from error
    return parse_job(text, path.name, path.parent)


def parse_job(text: str, name: str, home: Path) -> Job:
    """Check the text of a job file; `name` is how messages call it."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{name} is not valid TOML: {error}") from error
    root = Table(values, name)
    streams = root.maybe("stream", list, "…, one [[stream]] for each") or []
    join = Table(root.maybe("join", dict, "{on = […], select = […]}") or {}, f"{name}: [join]")
    run = root.maybe("run", dict, '{sink = "out", checkpoint = "checkpoint"}')
    spark = Table(root.maybe("spark", dict, '{master = "local[*]"}') or {}, f"{name}: [spark]")
    root.close()
    if len(streams) < 2:
        raise JobError(f"{name} has {len(streams)} [[stream]]; a join takes two or more")
    job = Job(
        name=name,
        streams=tuple(_source(each, n, name, home) for n, each in enumerate(streams, 1)),
        on=_terms(join),
        select=join.texts("select", '["orders.id AS order_id"]'),
        running=None if run is None else _running(Table(run, f"{name}: [run]"), home),
        master=spark.maybe("master", str, '"local[*]"') or "local[*]",
        config=spark.settings("config", '{"spark.driver.memory" = "4g"}'),
    )
    join.close()
    spark.close()
    return job


def _source(values: object, number: int, file: str, home: Path) -> Source:
    if not isinstance(values, dict):
        raise JobError(f"{file}: stream has {toml(values)} in it; write each stream as [[stream]]")
    label = values.get("name", f"number {number}")
    table = Table(values, f"{file}: [[stream]] {label}")
    name = table.take("name", str, '"orders"')
    kind = table.take("format", str, '"parquet"')
    if kind not in FORMATS:
        raise JobError(f"{table.place}: format is {toml(kind)}; write one of {', '.join(FORMATS)}")
    path = table.maybe("path", str, '"data/orders"')
    schema = table.maybe("schema", str, '"id INT, ts TIMESTAMP"')
    if kind == "rate" and (path or schema):
        raise JobError(f"{table.place}: rate makes its own rows; leave out path and schema")
    if kind != "rate" and path is None:
        raise JobError(f'{table.place} has no path; add where its files are: path = "data/{name}"')
    if kind in ("json", "csv") and schema is None:
        raise JobError(
            f"{table.place} has no schema; {kind} files do not bring one, and a stream cannot "
            'wait for its rows to find out: schema = "id INT, ts TIMESTAMP"'
        )
    source = Source(
        place=table.place,
        name=name,
        format=kind,
        time=table.take("time", str, '"ts"'),
        window=table.take("window", str, '"10 minutes"'),
        slack=_written(
            lateness=table.maybe("lateness", str, '"30 seconds"'),
            idle=table.maybe("idle", str, '"10 minutes"'),
        ),
        path=None if path is None else absolute(path, home),
        schema=schema,
        sql=table.texts("sql", '["id", "ts"]', needed=False),
        options=table.settings("options", "{maxFilesPerTrigger = 1}"),
    )
    table.close()
    for key, duration in {"window": source.window, **source.slack}.items():
        _check_duration(table, key, duration)
    return source


def _terms(join: Table) -> tuple[str | terms.Request, ...]:
    example = '["orders.id = clicks.id", {within = ["orders.v", "clicks.v"], distance = 0.35}]'
    found = join.take("on", list, example)
    if not found:
        raise JobError(f"{join.place}: on is empty; write what must hold: on = {example}")
    return tuple(
        each if isinstance(each, str) else _term(each, f"{join.place} on, term {n}")
        for n, each in enumerate(found, 1)
    )


def _term(values: object, place: str) -> terms.Request:
    kind = next((key for key in TERMS if isinstance(values, dict) and key in values), None)
    if not isinstance(values, dict) or kind is None:
        raise JobError(
            f"{place} is {toml(values)}; write SQL text, or a table with one of "
            f"{', '.join(TERMS)} (a function of your own, `match`, needs Python)"
        )
    table = Table(values, place)
    columns = table.texts(kind, '["orders.v", "clicks.v"]')
    if len(columns) != 2:
        raise JobError(f'{place}: {kind} takes two columns: {kind} = ["orders.v", "clicks.v"]')
    make, examples = TERMS[kind]
    numbers = {name: table.take(name, float, example) for name, example in examples.items()}
    table.close()
    try:
        return make(*columns, **numbers)
    except QueryError as error:
        raise JobError(f"{place}: {error}") from error


def _running(table: Table, home: Path) -> Running:
    late = table.maybe("late", str, '"late"')
    dead = table.maybe("dead", str, '"dead"')
    trigger = table.maybe("trigger", str, '"1 second"')
    if trigger is not None and trigger != AVAILABLE_NOW:
        _check_duration(table, "trigger", trigger)
    running = Running(
        sink=absolute(table.take("sink", str, '"out"'), home),
        checkpoint=absolute(table.take("checkpoint", str, '"checkpoint"'), home),
        late=None if late is None else absolute(late, home),
        dead=None if dead is None else absolute(dead, home),
        append=table.maybe("append", bool, "true") or False,
        options=_written(
            strategy=table.maybe("strategy", str, '"auto"'),
            hosts=table.maybe("hosts", int, "2"),
            trigger=trigger,
            late_warning=table.maybe("late_warning", float, "0.01"),
        ),
    )
    table.close()
    return running


def _written(**values: T | None) -> dict[str, T]:
    return {key: value for key, value in values.items() if value is not None}


def _check_duration(table: Table, key: str, value: str) -> None:
    try:
        microseconds(value, key)
    except QueryError as error:
        raise JobError(f"{table.place}: {error}") from error


def absolute(path: str, home: Path) -> str:
    """A path of the job file as Spark is to see it; an address (`s3a://…`) stays as it is."""
    return path if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path) else str((home / path).resolve())
