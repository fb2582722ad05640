"""Tables of a TOML file, read key by key so that every mistake can be named.

A `Table` knows the place it was written at. Whoever reads it asks for the keys that mean
something; what is of the wrong type, missing, or left over at the end is refused with a sentence
that says where it is and what would be right.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from anabranch.errors import AnabranchError

T = TypeVar("T")

WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


class JobError(AnabranchError):
    """A job file is wrong: names the file, the place in it, the key, and what would be right."""


class Table:
    """One table of the file. `place` is how messages call it, like `job.toml: [join]`."""

    def __init__(self, values: Mapping[str, Any], place: str) -> None:
        self.place = place
        self._values = values
        self._known: list[str] = []

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def take(self, key: str, kind: type[T], example: str) -> T:
        """The value of a key that must be there; `example` is how TOML would write it."""
        value = self.maybe(key, kind, example)
        if value is None:
            raise JobError(f"{self.place} has no {key}; add {WORDS[kind]}: {key} = {example}")
        return value

    def maybe(self, key: str, kind: type[T], example: str) -> T | None:
        """The value of a key, or None where it is left out."""
        self._known.append(key)
        if key not in self._values:
            return None
        value = self._values[key]
        accepted = (int, float) if kind is float else kind
        # To Python, true is a whole number; to whoever wrote `hosts = true` it is a mistake.
        mistaken = isinstance(value, bool) and kind is not bool
        if mistaken or not isinstance(value, accepted):
            raise JobError(
                f"{self.place}: {key} is {toml(value)}; write {WORDS[kind]}: {key} = {example}"
            )
        return cast(T, value)

    def texts(self, key: str, example: str, *, needed: bool = True) -> tuple[str, ...]:
        """A list of texts; an empty one only where it may be left out."""
        values = self.maybe(key, list, example) or []
        if needed and not values:
            raise JobError(f"{self.place} has no {key}; add a list of texts: {key} = {example}")
        for value in values:
            if not isinstance(value, str):
                raise JobError(
                    f"{self.place}: {key} has {toml(value)} in it; "
                    f"write a list of texts: {key} = {example}"
                )
        return tuple(values)

    def settings(self, key: str, example: str) -> dict[str, str]:
        """A table of free names, as texts: the options of Spark and of its sources."""
        found = flat(self.maybe(key, dict, example) or {})
        for name, value in found.items():
            if not isinstance(value, (str, int, float, bool)):
                raise JobError(
                    f"{self.place}: {name} in {key} is {toml(value)}; "
                    "write a text, a number, true or false"
                )
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in found.items()
        }

    def close(self) -> None:
        """Refuse what nobody asked for: a misspelt key must not be a setting left out."""
        for key in self._values:
            if key in self._known:
                continue
            near = difflib.get_close_matches(key, self._known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(self._known)}"
            raise JobError(f"{self.place}: unknown key {key}; {hint}")


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted names: TOML takes the dots of a bare Spark name for nesting.

    >>> flat({"spark": {"sql": {"ansi": {"enabled": True}}}})
    {'spark.sql.ansi.enabled': True}
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def toml(value: object) -> str:
    """A value as its author wrote it, more or less, and not too long.

    >>> toml(True), toml("x"), toml([1, 2]), toml({"a": 1})
    ('true', '"x"', '[1, 2]', '{a = 1}')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 40 else f'"{value[:37]}…"'
    if isinstance(value, list):
        return f"[{', '.join(toml(each) for each in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {toml(each)}' for key, each in value.items())}}}"
    return str(value)
