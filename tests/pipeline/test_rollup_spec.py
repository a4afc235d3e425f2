"""A rollup's YAML: what it means, and that what is wrong in it is said with line and key."""

from pathlib import Path

import pytest

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.rollup_reading import read_spec
from odradek.pipeline.rollup_spec import Rollup, Window
from tests.pipeline.demo import ORDER_COUNT

EXAMPLE = Path(__file__).parents[2] / "pipeline" / "rollup-example.yaml"
SPEC = """\
name: totals
source: {topics: orders}
schema:
  format: json
  fields: {city: string, cents: bigint, at: timestamp, ok: "boolean?"}
event_time: at
watermark: 10 minutes
window: 5 minutes
key: city
measures:
  orders: count
  revenue: sum(cents)
output: {topic: totals}
checkpoint: /tmp/totals
"""


def read(text: str) -> Rollup:
    return read_spec(text, "totals.yaml")


def error(old: str, new: str) -> str:
    assert old in SPEC
    with pytest.raises(PipelineError) as raised:
        read(SPEC.replace(old, new))
    return str(raised.value)


def test_a_short_spec_has_defaults() -> None:
    spec = read(SPEC)
    assert spec.source.topics == ("orders",)
    assert (spec.source.starting_offsets, spec.source.isolation_level) == (
        "earliest",
        "read_committed",
    )
    assert spec.window == Window(300_000, 300_000)
    assert spec.watermark_ms == 600_000
    assert spec.key == ("city",)
    assert [(one.name, one.expression) for one in spec.measures] == [
        ("orders", "count(1)"),
        ("revenue", "try_sum(cents)"),
    ]
    assert (spec.output.mode, spec.output.topic, spec.output.parquet) == ("append", "totals", None)
    assert (spec.dead_letters, spec.trigger) == (None, None)
    assert [field.nullable for field in spec.schema.fields] == [False, False, False, True]


def test_the_example_is_a_spec() -> None:
    spec = read_spec(EXAMPLE.read_text(), EXAMPLE.name)
    assert spec.window == Window(300_000, 300_000)
    assert spec.event_time.ahead_ms_max == 1000 * 86_400_000
    assert spec.output.topic == "revenue"
    assert spec.output.parquet == "rollups/revenue"
    assert spec.dead_letters == "orders-bad"
    assert spec.trigger == "10 seconds"
    # Nobody is late before the third batch, and the demo is to show some who are.
    assert spec.source.max_offsets_per_trigger is not None
    assert 3 * spec.source.max_offsets_per_trigger <= ORDER_COUNT


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("name: totals\n", "", "totals.yaml, line 1: `name` is missing"),
        ("name: totals", "nam: totals", "line 1, nam: there is no such key: did you mean name?"),
        ("name: totals", "name: a b", "line 1, name: 'a b' cannot name"),
        ("key: city", "key: town", "line 9, key: there is no field `town`; allowed: city, cents"),
        (
            "key: city",
            "key: [city, citi]",
            "line 9, key[1]: there is no field `citi`: did you",
        ),
        ("key: city", "key: [city, city]", "line 9, key[1]: `city` is there twice"),
        ("key: city", "key: {a: b}", "line 9, key: must be a list"),
        ("event_time: at", "event_time: city", "line 6, event_time: `city` is a string; it must"),
        ("window: 5 minutes", "window: 5", "line 8, window: `5` is no duration, such as"),
        ("window: 5 minutes", "window: 5 months", "units: milliseconds, seconds, minutes"),
        ("window: 5 minutes", "window: 0 hours", "is no duration"),
        (
            "window: 5 minutes",
            "window: {size: 1 minute, slide: 2 minutes}",
            "line 8, window.slide: must not be longer",
        ),
        ("sum(cents)", "sum(city)", "line 12, measures.revenue: sum needs a number, and `city` is"),
        ("sum(cents)", "sum(cent)", "there is no field `cent`: did you mean cents?"),
        ("sum(cents)", "total(cents)", "there is no function `total`; allowed: count, or count("),
        ("sum(cents)", "sum()", "of what? Write sum(FIELD)"),
        ("sum(cents)", "7", "line 12, measures.revenue: must be text, not `7`"),
        ("  revenue", "  city", "line 12, measures.city: the result has a column of this name"),
        ("  revenue", "  Orders", "`Orders` is there twice; upper and lower case are the same"),
        ("  revenue", "  my revenue", "a name is made of letters"),
        ("  revenue", "  orders", "line 12, measures.orders: is there twice, first in line 11"),
        ("{topic: totals}", "{}", "line 13, output: give `topic: totals`, `parquet: DIR`, or both"),
        ("{topic: totals}", "{parquet: x, mode: update}", "line 13, output.mode: rows in Parquet"),
        (
            "{topic: totals}",
            "{topic: x, mode: complete}",
            "must be append or update, not `complete`",
        ),
        ("{topics: orders}", "{}", "line 2, source: give either `topics:"),
        ("{topics: orders}", "{topics: o, topics_pattern: p}", "line 2, source: give either"),
        ("{topics: orders}", "{topics: []}", "line 2, source.topics: must be a list"),
        (
            "{topics: orders}",
            "{topics: o, starting_offsets: first}",
            "be earliest or latest, not `first`",
        ),
        (
            "{topics: orders}",
            "{topics: o, max_offsets_per_trigger: 0}",
            "whole number of 1 or more",
        ),
        (
            "{topics: orders}",
            "orders",
            "line 2, source: must be a block of keys (topics, topics_pattern",
        ),
        ("format: json", "format: avro", "line 4, schema.format: must be json, csv or plain, not"),
        ("format: json", "format: plain", "of `format: plain` is the one field `value`"),
        (
            "cents: bigint",
            "cents: money",
            "line 5, schema.fields.cents: `money` is no type",
        ),
        ("cents: bigint", "cents: 'decimal(9,12)'", "is no type"),
        ("cents: bigint", "record_x: int", "are those of the record itself"),
        ("cents: bigint", "CITY: int", "`CITY` is there twice"),
        ("format: json", "format: json\n  separator: ;", "is one character, and only of `format:"),
        ("watermark: 10 minutes\n", "", "`watermark` is missing, such as `watermark: 10 minutes`"),
        (
            "checkpoint:",
            "dead_letters: orders\ncheckpoint:",
            "line 14, dead_letters: is a topic",
        ),
        ("checkpoint:", "trigger: soon\ncheckpoint:", "line 14, trigger: `soon` is no duration"),
        ("measures:", "measures: [", "this is not YAML"),
        ("{topics: orders}", "{topics_pattern: '('}", "line 2, source.topics_pattern: `(` is not"),
        ("{topics: orders}", r"{topics_pattern: '\p{Alpha}+'}", "line 2, source.topics_pattern: `"),
        ("name: totals", "name: 2026-13-45", "line 1, name: `2026-13-45` is no timestamp: put it"),
        ("name: totals", "name: !!timestamp x", "line 1, name: `x` is no timestamp: put it in q"),
        (
            "name: totals",
            "name: !!bool maybe",
            "line 1, name: `maybe` is no bool: put it in quotes",
        ),
        ("name: totals", "name: !!int ''", "line 1, name: `` is no int: put it in quotes if it is"),
        ("key: city", "key: !!python/name:os.system", "this is not YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, sentence: str) -> None:
    said = error(old, new)
    assert said.startswith("totals.yaml, line ")
    assert sentence in said


def test_an_empty_file_and_a_list_are_no_specs() -> None:
    with pytest.raises(PipelineError, match=r"totals\.yaml is empty"):
        read("# nothing\n")
    with pytest.raises(PipelineError, match=r"totals\.yaml, line 1: must be a block of keys"):
        read("- a\n")


def test_a_pattern_must_not_match_the_dead_letters() -> None:
    with pytest.raises(PipelineError, match="it would never end"):
        read(
            SPEC.replace("topics: orders", "topics_pattern: orders.*")
            + "dead_letters: orders-bad\n"
        )


def test_spark_sql_inside_a_measure_is_left_to_spark() -> None:
    spec = read(SPEC.replace("sum(cents)", "sum(cents / 100)"))
    assert spec.measures[1].expression == "try_sum(cents / 100)"
    assert spec.measures[1].entry.line == 12
    assert read(SPEC.replace("sum(cents)", "COUNT(*)")).measures[1].expression == "count(1)"
