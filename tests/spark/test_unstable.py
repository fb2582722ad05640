"""SQL whose value changes when a batch is repeated is refused; what only looks like it is not."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import anabranch as ab


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Any:
    frame = spark.sql(
        "SELECT timestamp'2026-01-01' ts, date'2026-01-01' day, 1L k, 'x' s, array(1.0D) v, "
        "1.5D x, 2L now, date'2026-01-02' `current_date`, named_struct('user', 's') version, "
        "map('now', 1) m"
    )
    spark.udf.register("lottery", udf(lambda k: k, "long").asNondeterministic())
    spark.udf.register("successor", udf(lambda k: k + 1, "long"))
    spark.sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION blur(x DOUBLE) RETURNS DOUBLE RETURN x + rand()"
    )
    return ab.join(*(ab.stream(name, frame, time="ts", window="1 second") for name in "ab"))


CHANGES = "changes from call to call"
CLOCK = "reads the clock"
SESSION = "reads the session"

UNSTABLE = [
    ("rand()", CHANGES),
    ("rand(42)", CHANGES),
    ("random()", CHANGES),
    ("randn()", CHANGES),
    ("uniform(0, 10)", CHANGES),
    ("randstr(5)", CHANGES),
    ("uuid()", CHANGES),
    ("shuffle(array(1, 2))", CHANGES),
    ("spark_partition_id()", CHANGES),
    ("monotonically_increasing_id()", CHANGES),
    ("input_file_name()", CHANGES),
    ("input_file_block_start()", CHANGES),
    ("input_file_block_length()", CHANGES),
    ("reflect('java.lang.Math', 'random')", CHANGES),
    ("java_method('java.lang.Math', 'random')", CHANGES),
    ("try_reflect('java.lang.Math', 'random')", CHANGES),
    ("lottery(5)", CHANGES),
    ("blur(5)", CHANGES),
    ("aes_encrypt('x', '0000111122223333')", CHANGES),
    ("now()", CLOCK),
    ("current_timestamp", CLOCK),
    ("current_timestamp()", CLOCK),
    ("localtimestamp()", CLOCK),
    ("current_date", CLOCK),
    ("CURRENT_DATE()", CLOCK),
    ("curdate()", CLOCK),
    ("current_time()", CLOCK),
    ("unix_timestamp()", CLOCK),
    ("timestamp'now'", CLOCK),
    ("date'today'", CLOCK),
    ("CAST('yesterday UTC' AS TIMESTAMP)", CLOCK),
    ("to_timestamp('now')", CLOCK),
    ("to_date('Tomorrow')", CLOCK),
    ("try_to_timestamp('now')", CLOCK),
    ("to_timestamp_ntz('now')", CLOCK),
    ("date_trunc('day', 'now')", CLOCK),
    ("current_timezone()", SESSION),
    ("current_user", SESSION),
    ("current_user()", SESSION),
    ("user()", SESSION),
    ("session_user()", SESSION),
    ("current_catalog()", SESSION),
    ("current_database()", SESSION),
    ("current_schema()", SESSION),
    ("version()", SESSION),
]


def refusal(wrong: Any) -> str:
    with pytest.raises(ab.QueryError) as error:
        wrong()
    message = str(error.value)
    assert len(message) <= 1000
    return message


@pytest.mark.parametrize(("call", "why"), UNSTABLE)
def test_an_unstable_function_is_refused_wherever_it_stands(pair: Any, call: str, why: str) -> None:
    query = pair.on("a.k = b.k")
    for wrong, text in (
        (pair.on, f"a.s = string({call})"),
        (lambda text: pair.on("a.k = b.k", text), f"concat(a.s, b.s) <> string({call})"),
        (lambda text: pair.on(ab.equal("a.s", text)), f"concat(b.s, string({call}))"),
        (lambda text: query.select("a.k", text), f"concat(a.s, string({call})) AS it"),
    ):
        message = refusal(lambda wrong=wrong, text=text: wrong(text))
        assert why in message
        assert text in message
        assert "a batch that is repeated after a failure must give the same rows" in message


@pytest.mark.parametrize(
    ("term", "named"),
    [
        ("exists(a.v, x -> x > rand())", "calls RAND()"),
        ("a.x > 1 AND (b.x < 2 OR sqrt(abs(uniform(0, 9) + b.x)) > a.x)", "calls UNIFORM(0, 9)"),
        ("a.k = lottery(b.k + 1) AND a.x > 1", "calls LOTTERY(b.k + 1)"),
        ("a.x > blur(b.x)", "calls BLUR(b.x)"),
        ("CASE WHEN a.k = 1 THEN current_date ELSE b.day END > b.day", "calls CURRENT_DATE"),
        ("a.ts > 'now'", "reads 'now' as a time"),
        ("b.day BETWEEN 'yesterday' AND a.day", "reads 'yesterday' as a time"),
        ("datediff(a.day, 'today') < b.k", "reads 'today' as a time"),
        ("a.k = b.k + unix_timestamp()", "calls unix_timestamp()"),
    ],
)
def test_the_refusal_names_the_smallest_part_that_is_unstable(
    pair: Any, term: str, named: str
) -> None:
    assert named in refusal(lambda: pair.on(term))


@pytest.mark.parametrize(
    "term",
    [
        "a.now = b.now",
        "a.current_date = b.`current_date`",
        "a.version.user = b.version.user",
        "a.m['now'] = b.m['now']",
        "a.s = 'now' AND b.s IN ('today', 'now')",
        "array_contains(array(a.s, b.s), 'now') AND element_at(a.m, 'now') = 1",
        "concat(a.s, 'today') = concat('tomorrow', b.s)",
        "unix_timestamp(a.s) = unix_timestamp(b.s, 'yyyy')",
        "successor(a.k) = b.k",
        "exists(a.v, x -> x > 1) AND a.k = b.k",
        "hash(a.s) = xxhash64(b.s)",
        "to_date('2026-01-01') = a.day AND a.day = b.day",
        "to_timestamp('epoch') < a.ts AND a.ts = b.ts",
        "aes_encrypt(a.s, '0000111122223333', 'ECB') = unhex(b.s)",
    ],
)
def test_what_only_looks_unstable_is_taken(pair: Any, term: str) -> None:
    assert pair.on(term).select("a.k").compiled.query.streams


def test_a_refusal_is_short_however_wide_the_streams_are(spark: SparkSession) -> None:
    columns = ", ".join(f"1 AS quite_a_long_name_of_a_column_{i}" for i in range(200))
    wide = spark.sql(f"SELECT timestamp'2026-01-01' ts, {columns}")
    pair = ab.join(*(ab.stream(name, wide, time="ts", window="1 second") for name in "ab"))
    for term in ("a.nope = b.ts", " OR ".join(["a.ts > b.ts + rand() * 7"] * 100)):
        refusal(lambda term=term: pair.on(term))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("explode(a.v) > b.x", "makes several rows of one"),
        ("bitmap_construct_agg(a.s) = b.s", "an expression over single rows"),
    ],
)
def test_what_is_not_an_expression_over_a_row_is_refused(pair: Any, text: str, words: str) -> None:
    assert words in refusal(lambda: pair.on(text))
    assert words in refusal(lambda: pair.on("a.k = b.k").select(f"{text} AS it"))
