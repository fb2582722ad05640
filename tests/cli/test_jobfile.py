"""Job files: what they mean, and how their mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.cli.jobfile import Job, parse_job, read_job
from anabranch.cli.tables import JobError
from anabranch.model import terms

HOME = Path("/jobs")

GOOD = """
[[stream]]
name = "orders"
format = "json"
path = "data/orders"
schema = "id INT, ts TIMESTAMP, tags ARRAY<INT>"
options = {maxFilesPerTrigger = 1, multiLine = true}
time = "ts"
window = "10 minutes"
lateness = "30 seconds"

[[stream]]
name = "clicks"
format = "rate"
sql = ["value AS id", "timestamp AS ts", "array(value) AS tags"]
time = "ts"
window = "5 minutes"

[join]
on = ["orders.id = clicks.id", {overlap = ["orders.tags", "clicks.tags"], at_least = 3}]
select = ["orders.id", "clicks.ts AS clicked"]

[run]
sink = "out"
checkpoint = "s3a://bucket/state"
hosts = 2
trigger = "available now"

[spark]
master = "local[2]"
[spark.config]
spark.driver.memory = "4g"
"""


def job(text: str = GOOD) -> Job:
    return parse_job(text, "job.toml", HOME)


def refusal(written: str, instead: str) -> str:
    """What is said when a part of the good job is written otherwise."""
    assert written in GOOD
    with pytest.raises(JobError) as caught:
        job(GOOD.replace(written, instead, 1))
    return str(caught.value)


def test_a_job_is_read_with_paths_relative_to_its_file() -> None:
    orders, clicks = job().streams
    assert orders.path == "/jobs/data/orders"
    assert orders.options == {"maxFilesPerTrigger": "1", "multiLine": "true"}
    assert (orders.window, orders.slack) == ("10 minutes", {"lateness": "30 seconds"})
    assert (clicks.path, clicks.schema, clicks.slack) == (None, None, {})
    assert clicks.sql[0] == "value AS id"


def test_an_address_is_no_relative_path() -> None:
    running = job().running
    assert running is not None
    assert (running.sink, running.checkpoint) == ("/jobs/out", "s3a://bucket/state")
    assert running.append is False
    other = job(GOOD.replace("hosts = 2", 'hosts = 2\nlate = "late"\ndead = "dead"', 1)).running
    assert other is not None
    assert (other.late, other.dead) == ("/jobs/late", "/jobs/dead")
    appending = job(GOOD.replace("[run]", "[run]\nappend = true")).running
    assert appending is not None
    assert appending.append is True
    assert running.options == {"hosts": 2, "trigger": "available now"}


def test_terms_are_text_or_tables() -> None:
    assert job().on == (
        "orders.id = clicks.id",
        terms.overlap("orders.tags", "clicks.tags", at_least=3),
    )


@pytest.mark.parametrize(
    ("table", "term"),
    [
        ('{equal = ["a.x", "b.x"]}', terms.equal("a.x", "b.x")),
        ('{band = ["a.x", "b.x"], width = 10}', terms.band("a.x", "b.x", 10)),
        ('{within = ["a.x", "b.x"], distance = 0.5}', terms.within("a.x", "b.x", 0.5)),
        ('{cosine = ["a.x", "b.x"], at_least = 0.9}', terms.cosine("a.x", "b.x", 0.9)),
        ('{inner_product = ["a.x", "b.x"], at_least = 2}', terms.inner_product("a.x", "b.x", 2)),
        ('{jaccard = ["a.x", "b.x"], at_least = 0.5}', terms.jaccard("a.x", "b.x", 0.5)),
    ],
)
def test_every_kind_of_term_has_a_table(table: str, term: terms.Request) -> None:
    assert job(GOOD.replace('"orders.id = clicks.id"', table)).on[0] == term


def test_bare_and_quoted_spark_names_are_the_same() -> None:
    quoted = GOOD.replace("spark.driver.memory =", '"spark.driver.memory" =')
    assert job().config == job(quoted).config == {"spark.driver.memory": "4g"}


def test_a_job_without_run_can_still_be_explained() -> None:
    without = GOOD[: GOOD.index("[run]")]
    assert job(without).running is None
    assert job(without).master == "local[*]"


@pytest.mark.parametrize(
    ("written", "instead", "message"),
    [
        (
            "lateness =",
            "latness =",
            "job.toml: [[stream]] orders: unknown key latness; did you mean lateness?",
        ),
        (
            "hosts = 2",
            "colour = 2",
            (
                "job.toml: [run]: unknown key colour; "
                "known: late, dead, trigger, sink, checkpoint, append, strategy, hosts, "
                "late_warning"
            ),
        ),
        (
            "hosts = 2",
            'hosts = "two"',
            'job.toml: [run]: hosts is "two"; write a whole number: hosts = 2',
        ),
        (
            "hosts = 2",
            "hosts = true",
            "job.toml: [run]: hosts is true; write a whole number: hosts = 2",
        ),
        (
            'window = "10 minutes"\n',
            "",
            'job.toml: [[stream]] orders has no window; add a text: window = "10 minutes"',
        ),
        (
            'format = "json"',
            'format = "xml"',
            'job.toml: [[stream]] orders: format is "xml"; write one of parquet, json, csv, rate',
        ),
        (
            'path = "data/orders"\n',
            "",
            (
                "job.toml: [[stream]] orders has no path; add where its files are: "
                'path = "data/orders"'
            ),
        ),
        (
            'format = "rate"',
            'format = "rate"\npath = "x"',
            "job.toml: [[stream]] clicks: rate makes its own rows; leave out path and schema",
        ),
        (
            "at_least = 3",
            "at_least = 0",
            "job.toml: [join] on, term 2: overlap: at_least is 0; it must be at least 1",
        ),
        (
            ", at_least = 3",
            "",
            "job.toml: [join] on, term 2 has no at_least; add a number: at_least = 3",
        ),
        (
            '["orders.tags", "clicks.tags"]',
            '["orders.tags"]',
            (
                "job.toml: [join] on, term 2: overlap takes two columns: "
                'overlap = ["orders.v", "clicks.v"]'
            ),
        ),
        (
            '["orders.id", "clicks.ts AS clicked"]',
            '["orders.id", 7]',
            (
                "job.toml: [join]: select has 7 in it; write a list of texts: "
                'select = ["orders.id AS order_id"]'
            ),
        ),
        (
            "[spark]",
            "[sparks]",
            "job.toml: unknown key sparks; did you mean spark?",
        ),
    ],
)
def test_a_mistake_is_answered_with_a_sentence(written: str, instead: str, message: str) -> None:
    assert refusal(written, instead) == message


def test_a_duration_that_cannot_be_read_names_its_stream() -> None:
    message = refusal('"30 seconds"', '"30 parsecs"')
    assert message.startswith('job.toml: [[stream]] orders: lateness is "30 parsecs"; write it')


def test_a_trigger_is_an_interval_or_available_now() -> None:
    assert refusal('"available now"', '"soon"').startswith('job.toml: [run]: trigger is "soon"')


def test_json_without_a_schema_says_why_it_needs_one() -> None:
    message = refusal('schema = "id INT, ts TIMESTAMP, tags ARRAY<INT>"\n', "")
    assert message.startswith("job.toml: [[stream]] orders has no schema; json files do not bring")


def test_a_function_cannot_be_written_in_a_table() -> None:
    message = refusal('{overlap = ["orders.tags", "clicks.tags"], at_least = 3}', "{match = 1}")
    assert "[join] on, term 2 is {match = 1}; write SQL text" in message
    assert "needs Python" in message


def test_one_stream_is_no_join() -> None:
    with pytest.raises(JobError, match=r"one\.toml has 1 \[\[stream\]\]; a join takes two"):
        parse_job('[[stream]]\nname = "a"', "one.toml", HOME)


def test_streams_in_single_brackets_are_explained() -> None:
    with pytest.raises(JobError, match=r"write a list: stream = …, one \[\[stream\]\] for each"):
        parse_job('[stream]\nname = "a"', "one.toml", HOME)


def test_broken_toml_and_missing_files_are_sentences_too(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"job\.toml is not valid TOML: .* line 1"):
        parse_job("[[stream]", "job.toml", HOME)
    with pytest.raises(JobError, match=r"none\.toml cannot be read"):
        read_job(tmp_path / "none.toml")
