"""SQL that gives another value when a batch is repeated, although Spark calls it deterministic.

After a failure a batch is joined again, and must give the same rows. Spark's analyzer tells of
functions that change from call to call (`anabranch.spark.analyzer`). What is listed here is
constant within one query, so that the analyzer accepts it, and differs in the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from anabranch.errors import QueryError

CHANGES = "changes from call to call"
_CLOCK = frozenset(
    ["curdate", "current_date", "current_time", "current_timestamp", "localtimestamp", "now"]
)
# A restart may come in another session: of another user, in another time zone, of another Spark.
_SESSION = frozenset(
    [
        "current_catalog",
        "current_database",
        "current_path",
        "current_schema",
        "current_timezone",
        "current_user",
        "session_user",
        "user",
        "version",
    ]
)
MOMENT = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
"""Strings that Spark casts to a time by the clock."""
_TO_TIME = frozenset(
    ["to_timestamp_ltz", "to_timestamp_ntz", "try_to_date", "try_to_timestamp", "ts_or_ds_to_date"]
)
_TIMES = exp.DataType.TEMPORAL_TYPES
_LONGEST = 300


def refuse_unstable(node: exp.Expr, text: str) -> None:
    """QueryError if an expression reads the clock or the session, or draws a random number."""
    for call in node.find_all(exp.Func):
        name = (call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower()
        if name in _CLOCK:
            shown = "unix_timestamp()" if isinstance(call.parent, exp.StrToUnix) else _sql(call)
            raise unstable(text, f"calls {shown}, which reads the clock")
        if name in _SESSION:
            raise unstable(
                text, f"calls {_sql(call)}, which reads the session: write the value itself"
            )
        if name == "aes_encrypt" and _draws_vector(call):
            raise unstable(
                text, f"calls {_sql(call)}, which {CHANGES} unless it is given an iv or mode 'ECB'"
            )
        if name in _TO_TIME or (isinstance(call, exp.Cast) and call.to.this in _TIMES):
            for literal in moments(call):
                if literal.parent is call:
                    raise reads_moment(text, literal)


def moments(node: exp.Expr) -> Iterator[exp.Expr]:
    """The strings of an expression that are moments, if Spark takes them for times."""
    return (
        literal
        for literal in node.find_all(exp.Literal)
        if literal.is_string and MOMENT.match(literal.name)
    )


def reads_moment(text: str, literal: exp.Expr) -> QueryError:
    """The refusal of a string that Spark takes for a time."""
    return unstable(text, f"reads {_sql(literal)} as a time, which reads the clock")


def unstable(text: str, why: str) -> QueryError:
    """The refusal of an expression for what it does."""
    return QueryError(
        f'"{short(text)}" {short(why)}; a batch that is repeated after a failure must give the '
        "same rows. Use the event time, or a column of the input DataFrame that stays the same "
        "when its source is read again"
    )


def _draws_vector(call: exp.Func) -> bool:
    """Whether aes_encrypt(value, key, mode, padding, iv) is left to draw its own iv."""
    arguments = call.expressions
    mode = arguments[2].name.upper() if len(arguments) > 2 else ""
    return mode != "ECB" and len(arguments) < 5


def _sql(node: exp.Expr) -> str:
    return node.sql(dialect="spark")


def short(text: str) -> str:
    """A text as a message can quote it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
