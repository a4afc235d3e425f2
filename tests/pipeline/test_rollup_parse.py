"""What Spark makes of values: fields, or the reason why they are none."""

import pytest

from odradek.pipeline.events import Shape, events
from tests.spark.warm import WarmSpark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

JOBS = "tests.pipeline.rollup_jobs"
HEAD = "name: n\nsource: {topics: t}\nwatermark: 1 minute\nwindow: 1 minute\ncheckpoint: c\n"
TAIL = "measures: {n: count}\noutput: {topic: o}\n"
JSON = """\
schema:
  format: json
  fields: {city: string, cents: bigint, price: "decimal(9,2)?", at: timestamp, ok: "boolean?"}
event_time: {field: at, ahead_max: 1 hour}
"""
CSV = """\
schema:
  format: csv
  separator: ";"
  fields: {city: string, cents: "int?", at: bigint}
event_time: at
"""
PLAIN = """\
schema: {format: plain, fields: {value: double}}
event_time: record_timestamp
"""
ORDERS = """\
schema:
  format: json
  fields: {city: string, quantity: int, amount_cents: bigint, ordered_at: timestamp}
event_time: ordered_at
"""
CLICKS = """\
schema:
  format: json
  fields: {page: string, referrer: "string?", duration_ms: int, clicked_at: bigint}
event_time: clicked_at
"""
SENSORS = """\
schema:
  format: csv
  fields: {sensor: string, measured_at: timestamp, temperature: double, humidity: "decimal(5,1)"}
event_time: measured_at
"""


def classify(spark: WarmSpark, schema: str, values: list[bytes | None]) -> list[str | None]:
    texts = [None if value is None else value.hex() for value in values]
    found: list[str | None] = spark.run(f"{JOBS}.classify", spec=HEAD + schema + TAIL, values=texts)
    return found


def test_json(warm_spark: WarmSpark) -> None:
    good = b'{"city": "Z\xc3\xbcrau", "cents": 5, "at": "2026-01-01T12:00:00Z"'
    cases: list[tuple[bytes | None, str | None]] = [
        (good + b"}", None),
        (good + b', "price": 12.50, "ok": true, "more": [1]}', None),
        (good + b', "price": null}', None),
        (None, "value is null"),
        (b"", "value is empty"),
        (b"{", "value is not a JSON object"),
        (good, "value is not a JSON object"),
        (b"GET / HTTP/1.1", "value is not a JSON object"),
        (b"[1]", "value is not a JSON object"),
        (b"7", "value is not a JSON object"),
        (b"null", "value is not a JSON object"),
        (b"\xff\xfe\x00", "value is not a JSON object"),
        (b"{}", "field city is missing or null"),
        (good.replace(b"5", b"null") + b"}", "field cents is missing or null"),
        (good.replace(b"5", b'"five"') + b"}", "field cents: five is not of type bigint"),
        (good.replace(b"5", b"5.5") + b"}", "field cents: 5.5 is not of type bigint"),
        (good.replace(b"5", b"9" * 30) + b"}", f"field cents: {'9' * 30} is not of type bigint"),
        (good + b', "ok": "maybe"}', "field ok: maybe is not of type boolean"),
        (good.replace(b"2026-01-01T", b"soon") + b"}", "field at: soon12:00:00Z is not of type"),
        (good.replace(b"T12", b"T14") + b"}", "event time 2026-01-01 14:00:00 is ahead of the re"),
        (good.replace(b"2026", b"+99999") + b"}", "field at is no time of the years 1 to 9999"),
    ]
    check(classify(warm_spark, JSON, [value for value, _ in cases]), cases)


def test_csv(warm_spark: WarmSpark) -> None:
    cases: list[tuple[bytes | None, str | None]] = [
        (b"Brno;7;1767225600000", None),
        (b'"Brno; centre";;1767225600000', None),
        (None, "value is null"),
        (b"", "value is empty"),
        (b"Brno;7", "value is not a line of 3 columns"),
        (b"Brno;7;1767225600000;", "value is not a line of 3 columns"),
        (b"Brno;seven;1767225600000", "field cents: seven is not of type int"),
        (b"Brno;7;noon", "field at: noon is not of type bigint"),
        (b"Brno;7;9000000000000000000", "field at is no time of the years 1 to 9999"),
        (b";7;1767225600000", "field city is missing or null"),
    ]
    check(classify(warm_spark, CSV, [value for value, _ in cases]), cases)


def test_plain(warm_spark: WarmSpark) -> None:
    cases: list[tuple[bytes | None, str | None]] = [
        (b"1.5", None),
        (b"-3", None),
        (b"", "field value:  is not of type double"),
        (b"warm", "field value: warm is not of type double"),
        (None, "value is null"),
    ]
    check(classify(warm_spark, PLAIN, [value for value, _ in cases]), cases)


def check(found: list[str | None], cases: list[tuple[bytes | None, str | None]]) -> None:
    wrong = {
        value: reason
        for reason, (value, expected) in zip(found, cases, strict=True)
        if (reason is None) != (expected is None) or not (reason or "").startswith(expected or "")
    }
    assert not wrong


@pytest.mark.parametrize(
    ("kind", "schema"), [("orders", ORDERS), ("clicks", CLICKS), ("sensors", SENSORS)]
)
def test_what_is_generated_malformed_is_bad_and_nothing_else(
    warm_spark: WarmSpark, kind: str, schema: str
) -> None:
    made = list(events(kind, 3, 1000, Shape(malformed=0.1)))
    found = classify(warm_spark, schema, [event.value for event in made])
    assert [reason is not None for reason in found] == [
        event.fault == "malformed" for event in made
    ]
    assert len(set(found)) > 5


@pytest.mark.parametrize(("size_ms", "slide_ms"), [(60_000, 60_000), (60_000, 20_000), (70, 30)])
def test_window_ends_are_those_of_spark(warm_spark: WarmSpark, size_ms: int, slide_ms: int) -> None:
    times = [0, 1, 29, 30, 59_999, 60_000, 1_767_225_600_000, 1_767_225_612_345, -1, -61_000]
    for theirs, ours in warm_spark.run(
        f"{JOBS}.ends", times_ms=times, size_ms=size_ms, slide_ms=slide_ms
    ):
        assert ours == theirs
