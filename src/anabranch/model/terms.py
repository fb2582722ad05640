"""The kinds of term that a join condition is made of.

A query's condition is a conjunction of terms, each over the columns of two or more streams.
The classes here say *what* must hold; the kernel of the same name (in `anabranch.kernel`) says
how matching rows are found. SQL text is compiled into these same classes (`anabranch.model.sql`).
Operands are written as SQL over a single stream ("clicks.embedding", "lower(users.name)").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from numbers import Real
from typing import Any

from anabranch.errors import QueryError


@dataclass(frozen=True)
class Equal:
    """Both operands are equal; null equals nothing."""


@dataclass(frozen=True)
class Band:
    """`abs(left - right) <= width`, or `<` where strict."""

    width: Decimal | float
    strict: bool = False
    wraps: int | None = None
    """Bits after which a difference of integers wraps around, as it does in Spark without ANSI."""
    double: bool = False
    """Whether the width was written as a double, so that Spark compares doubles."""
    loose: bool = False
    """Whether it only finds candidates: the width is widened by what rounding may add."""


@dataclass(frozen=True)
class Interval:
    """A value between bounds of another stream; a missing bound is open.

    Operands in order: the value, then the lower bound if there is one, then the upper bound.
    """

    has_low: bool
    has_high: bool
    low_strict: bool = False
    high_strict: bool = False


@dataclass(frozen=True)
class Within:
    """The Euclidean distance of two dense vectors is at most `distance`."""

    distance: float


@dataclass(frozen=True)
class Cosine:
    """The cosine of two vectors (arrays, or maps of weights) is at least `at_least`."""

    at_least: float


@dataclass(frozen=True)
class InnerProduct:
    """The inner product of two vectors (arrays, or maps of weights) is at least `at_least`."""

    at_least: float


@dataclass(frozen=True)
class Overlap:
    """Two sets (arrays) have at least `at_least` distinct elements in common."""

    at_least: int


@dataclass(frozen=True)
class Jaccard:
    """Size of the intersection over size of the union of two sets is at least `at_least`."""

    at_least: float


@dataclass(frozen=True)
class Alike:
    """At least a part `at_least` of the pixels of two images are alike, up to `tolerance`."""

    at_least: float
    tolerance: int


@dataclass(frozen=True)
class Match:
    """A function of the user's, from blocks of columns to a Boolean block."""

    function: Callable[..., Any]


@dataclass(frozen=True)
class Expression:
    """SQL over several streams, with no index; its operands stand in it as c0, c1 and so on."""

    sql: str


Kind = (
    Equal
    | Band
    | Interval
    | Within
    | Cosine
    | InnerProduct
    | Overlap
    | Jaccard
    | Alike
    | Match
    | Expression
)


@dataclass(frozen=True)
class Request:
    """A term as the user wrote it: what must hold, and of which columns."""

    text: str
    kind: Kind
    operands: tuple[str, ...]
    parts: tuple[Request, ...] = ()
    """The requests that it was put together from."""


def equal(left: str, right: str) -> Request:
    """Both columns are equal: `ab.equal("orders.user_id", "clicks.user_id")`."""
    _columns("equal", left, right)
    return Request(f"{left} = {right}", Equal(), (left, right))


def band(left: str, right: str, width: float | Decimal) -> Request:
    """Two numbers differ by at most `width`."""
    _columns("band", left, right)
    exact = width if isinstance(width, Decimal) else None
    number = _number("band", "width", width, at_least=0)
    kind = Band(exact if exact is not None else Decimal(repr(number)))
    return Request(f"band({left}, {right}, width={number:g})", kind, (left, right))


def within(left: str, right: str, distance: float) -> Request:
    """Two dense vectors of equal length lie within a Euclidean distance."""
    _columns("within", left, right)
    distance = _number("within", "distance", distance, at_least=0)
    text = f"within({left}, {right}, distance={distance:g})"
    return Request(text, Within(distance), (left, right))


def cosine(left: str, right: str, at_least: float) -> Request:
    """Two vectors, or two maps of weights, have at least this cosine."""
    _columns("cosine", left, right)
    at_least = _number("cosine", "at_least", at_least, at_least=-1, at_most=1)
    text = f"cosine({left}, {right}, at_least={at_least:g})"
    return Request(text, Cosine(at_least), (left, right))


def inner_product(left: str, right: str, at_least: float) -> Request:
    """Two vectors, or two maps of weights, have at least this inner product."""
    _columns("inner_product", left, right)
    at_least = _number("inner_product", "at_least", at_least)
    text = f"inner_product({left}, {right}, at_least={at_least:g})"
    return Request(text, InnerProduct(at_least), (left, right))


def overlap(left: str, right: str, at_least: int) -> Request:
    """Two arrays have at least this many distinct elements in common."""
    _columns("overlap", left, right)
    count = _number("overlap", "at_least", at_least, at_least=1)
    if count != int(count):
        raise QueryError(f"overlap: at_least is {at_least!r}; write a whole number, 1 or more")
    text = f"overlap({left}, {right}, at_least={int(count)})"
    return Request(text, Overlap(int(count)), (left, right))


def jaccard(left: str, right: str, at_least: float) -> Request:
    """Two arrays, as sets, have at least this Jaccard similarity."""
    _columns("jaccard", left, right)
    at_least = _number("jaccard", "at_least", at_least, at_least=0, at_most=1)
    if at_least == 0:
        raise QueryError("jaccard: at_least is 0, which every pair satisfies; write more than 0")
    text = f"jaccard({left}, {right}, at_least={at_least:g})"
    return Request(text, Jaccard(at_least), (left, right))


def alike(left: str, right: str, at_least: float, tolerance: int = 16) -> Request:
    """Two images (binary columns of red, green and blue, a byte each) are alike, pixel by pixel.

    A pixel is alike if none of its three values differs by more than `tolerance`, of 255;
    `at_least` is the part of all pixels that must be. Images of different sizes never match.
    """
    _columns("alike", left, right)
    part = _number("alike", "at_least", at_least, at_least=0, at_most=1)
    most = _number("alike", "tolerance", tolerance, at_least=0, at_most=255)
    if most != int(most):
        raise QueryError(f"alike: tolerance is {tolerance!r}; write a whole number from 0 to 255")
    text = f"alike({left}, {right}, at_least={part:g}, tolerance={int(most)})"
    return Request(text, Alike(part, int(most)), (left, right))


def match(function: Callable[..., Any], *columns: str) -> Request:
    """Whatever a function decides: it takes one block per column and returns Booleans.

    Blocks are NumPy arrays where the column is numeric, Boolean or temporal, and Arrow arrays
    otherwise. Rows with a null in any of the columns match nothing and are not shown to it.
    """
    if not callable(function):
        raise QueryError(f"match: the first argument is {function!r}; pass a function")
    if len(columns) < 2:
        raise QueryError(
            "match: name the columns that the function takes, of two streams or more, "
            'like ab.match(same_place, "orders.city", "clicks.city")'
        )
    _columns("match", *columns)
    name = getattr(function, "__name__", type(function).__name__)
    return Request(f"match({name}, {', '.join(columns)})", Match(function), tuple(columns))


def _columns(term: str, *columns: object) -> None:
    """Refuse what is not SQL text."""
    for column in columns:
        if not isinstance(column, str) or not column.strip():
            raise QueryError(f'{term}: {column!r} is not a column; write SQL like "orders.price"')


def _number(
    term: str,
    argument: str,
    value: object,
    at_least: float | None = None,
    at_most: float | None = None,
) -> float:
    """A finite number of any kind: Python's, NumPy's or a decimal."""
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)) or not isfinite(value):
        raise QueryError(f"{term}: {argument} is {value!r}; write a finite number")
    number = float(value)
    if at_least is not None and number < at_least:
        raise QueryError(f"{term}: {argument} is {value!r}; it must be at least {at_least:g}")
    if at_most is not None and number > at_most:
        raise QueryError(f"{term}: {argument} is {value!r}; it must be at most {at_most:g}")
    return number
