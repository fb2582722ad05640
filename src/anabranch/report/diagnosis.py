"""Why there is no output, or so much: the likeliest cause in plain words, from progress alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.report.lateness import late_sentence
from anabranch.report.under_way import under_way_sentence

MUCH = 100
"""Results per arrived row from which a join is said to multiply."""


@dataclass(frozen=True)
class Diagnosis:
    """What there is to say, the most important first, and the numbers behind it."""

    sentence: str
    progress: Mapping[str, Any]

    def __str__(self) -> str:
        p = self.progress
        lines = [self.sentence, ""]
        lines.append(
            f"{p['batches']} batches, {p['results_total']:,} results; watermark "
            f"{p['watermark'] or 'none yet'}"
            + (f", held back by {p['held_back_by']}" if p["held_back_by"] else "")
        )
        for name, s in p["streams"].items():
            lines.append(
                f"  {name}: arrived {s['arrived']:,}, late {s['late']:,}, without a time "
                f"{s['null_time']:,}, filtered {s['filtered']:,}, null keys {s['null_key']:,}, "
                f"set aside {s['dead']:,}, live {s['live']:,}, watermark {s['watermark'] or 'none'}"
                + (f", nothing in {_last(s['silent'])}" if s["silent"] else "")
                + (", idle" if s["idle"] else "")
            )
        for text, t in p["terms"].items():
            lines.append(f"  {text}: compared {t['compared']:,}, matched {t['matched']:,}")
        for entry in p["multiplying"]:
            values = ", ".join(f"{name}={value}" for name, value in entry["values"].items())
            lines.append(
                f"  {entry['results']:,} results from one row of {entry['stream']} at "
                f"{entry['time']}: {values}"
            )
        return "\n".join(lines)


def diagnosed(progress: Mapping[str, Any]) -> Diagnosis:
    """Why the output is as it is, and what else is worth knowing."""
    sentences = (
        under_way_sentence(progress),
        late_sentence(progress),
        _cause(progress),
        _held_by_silence(progress),
    )
    return Diagnosis(" ".join(filter(None, sentences)), progress)


def _cause(p: Mapping[str, Any]) -> str | None:
    """The first cause, in the order in which they hide each other, that explains the numbers."""
    if p["under_way"] and not p["batches"]:
        return None
    for cause in (_nothing_read, _too_much, _fine, _stream_lost, _never_together, _no_term_matches):
        sentence = cause(p)
        if sentence:
            return sentence
    return (
        "Rows arrive and terms match, but never all of them for one combination: the streams "
        "agree in pairs, and not together."
    )


def _nothing_read(p: Mapping[str, Any]) -> str | None:
    silent = [name for name, s in p["streams"].items() if not s["arrived"]]
    if not p["batches"]:
        return "No batch has been committed yet: the sources have given no rows so far."
    if silent:
        return f"No row has arrived on {_listed(silent)}: a join needs rows of every stream."
    return None


def _too_much(p: Mapping[str, Any]) -> str | None:
    arrived = sum(s["arrived"] for s in p["streams"].values())
    if p["results_total"] < MUCH * arrived or not p["multiplying"]:
        return None
    top = p["multiplying"][0]
    values = ", ".join(f"{name}={value}" for name, value in top["values"].items())
    return (
        f"Each arrived row gives {p['results_total'] / arrived:,.0f} results on average: the terms "
        f"are not selective. The row that multiplies most is of {top['stream']} ({values}): "
        f"{top['results']:,} results in one batch."
    )


def _fine(p: Mapping[str, Any]) -> str | None:
    if not p["results_total"]:
        return None
    return f"There is output: {p['results_total']:,} results from {p['batches']} batches."


def _stream_lost(p: Mapping[str, Any]) -> str | None:
    causes = {
        "filtered": "are filtered on arrival by conditions on that stream alone",
        "null_key": "have a null in a column that the terms compare, and null matches nothing",
        "null_time": "have no event time",
        "dead": "cannot be handled by a term or an expression, and are set aside",
        "late": "are late: behind the watermark when they arrive",
    }
    for name, s in p["streams"].items():
        lost = sum(s[cause] for cause in causes)
        if lost == s["arrived"]:
            worst = max(causes, key=lambda cause: s[cause])
            return f"Of the {s['arrived']:,} rows of {name}, {s[worst]:,} {causes[worst]}."
    return None


def _never_together(p: Mapping[str, Any]) -> str | None:
    if any(t["reach"] or t["compared"] for t in p["terms"].values()):
        return None
    marks = {name: s["watermark"] for name, s in p["streams"].items() if s["watermark"]}
    if len(marks) < 2:
        return None
    first, last = min(marks, key=lambda n: marks[n]), max(marks, key=lambda n: marks[n])
    return (
        f"No two rows lie in each other's windows: {first} has come to {marks[first]} and {last} "
        f"to {marks[last]}. Check the time columns, or widen the windows."
    )


def _no_term_matches(p: Mapping[str, Any]) -> str | None:
    for text, t in p["terms"].items():
        if (t["compared"] or t["reach"]) and not t["matched"]:
            pairs = max(t["compared"], t["reach"])
            return f"The term {text} has matched none of {pairs:,} pairs in the window."
    return None


def _held_by_silence(p: Mapping[str, Any]) -> str | None:
    held = p["held_by_silence"]
    if not held["rows"]:
        return None
    name = held["streams"][0]
    batches = min(p["streams"][each]["silent"] for each in held["streams"])
    those = "it" if len(held["streams"]) == 1 else "them"
    return (
        f"Nothing has come from {_listed(held['streams'])} in {_last(batches)}, and "
        f"{held['rows']:,} rows ({held['bytes']:,} bytes) of state would have expired without "
        f"{those}. If such silence is usual, ab.stream({name!r}, ..., idle='10 minutes') lets the "
        "run go on without; what comes after such a pause may then be late."
    )


def _last(batches: int) -> str:
    return "the last batch" if batches == 1 else f"the last {batches:,} batches"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
