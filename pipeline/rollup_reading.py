"""Reads a rollup's YAML file and checks it before Spark starts; errors name the line and the key.

Names are checked here; Spark SQL inside of measures is checked when Spark plans them.
"""

import re
from collections.abc import Sequence
from typing import Final

from .errors import PipelineError
from .kafka import ISOLATION_LEVELS
from .marks import check_name
from .rollup_spec import (
    EventTime,
    Field,
    Measure,
    Output,
    Rollup,
    Schema,
    Source,
    Window,
    types_of,
)
from .rollup_yaml import Entry, nearest, read_yaml, said

FORMATS: Final = ("json", "csv", "plain")
TYPES: Final = ("string", "boolean", "int", "bigint", "float", "double", "date", "timestamp")
DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
NUMBERS: Final = ("int", "bigint", "float", "double")

FUNCTIONS: Final = {
    "count": "count, or count(FIELD) where it is not null",
    "sum": "sum(FIELD)",
    "avg": "avg(FIELD)",
    "min": "min(FIELD)",
    "max": "max(FIELD)",
    "stddev": "stddev(FIELD)",
    "approx_count_distinct": "approx_count_distinct(FIELD)",
    "approx_percentile": "approx_percentile(FIELD, 0.95)",
}
NULL_ON_OVERFLOW: Final = {"sum": "try_sum", "avg": "try_avg"}
"""Otherwise an overflowing sum would stop Spark for good, or yield a wrong result."""
OF_NUMBERS: Final = ("sum", "avg", "stddev", "approx_percentile")
UNIT_MS: Final = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DURATION: Final = re.compile(rf"(\d+) *({'|'.join(UNIT_MS)})s?")
MEASURE: Final = re.compile(r"(\w+)(?:\((.*)\))?", re.DOTALL)
KEYS: Final = (
    "name",
    "source",
    "schema",
    "event_time",
    "watermark",
    "window",
    "key",
    "measures",
    "output",
    "dead_letters",
    "checkpoint",
    "trigger",
)
SOURCE_KEYS: Final = (
    "topics",
    "topics_pattern",
    "starting_offsets",
    "isolation_level",
    "max_offsets_per_trigger",
    "bootstrap_servers",
)


def read_spec(text: str, file: str) -> Rollup:
    """The spec in a file's text.  Raises: PipelineError with line, key and what is allowed."""
    root = read_yaml(text, file).section(KEYS)
    schema = _schema(root.need("schema", "{format: json, fields: {city: string}}"))
    types = types_of(schema)
    window = _window(root.need("window", "5 minutes"))
    key = _key(root.get("key"), types)
    trigger = root.get("trigger")
    if trigger is not None:
        _duration_ms(trigger)
    dead_letters = root.get("dead_letters")
    source = _source(root.need("source", "{topics: [orders]}"))
    output = _output(root.need("output", "{topic: totals}"))
    if dead_letters is not None:
        _refuse_circle(dead_letters, source)
    return Rollup(
        name=_name(root.need("name", "revenue-per-city")),
        source=source,
        schema=schema,
        event_time=_event_time(root.need("event_time", "record_timestamp"), types),
        watermark_ms=_duration_ms(root.need("watermark", "10 minutes"), zero=True),
        window=window,
        key=key,
        measures=_measures(root.need("measures", "{orders: count}"), types, key),
        output=output,
        dead_letters=None if dead_letters is None else dead_letters.text(),
        checkpoint=root.need("checkpoint", "checkpoints/revenue").text(),
        trigger=None if trigger is None else trigger.text(),
    )


def _name(entry: Entry) -> str:
    try:
        check_name(entry.text())
    except PipelineError as error:
        raise entry.error(str(error)) from None
    return entry.text()


def _source(entry: Entry) -> Source:
    section = entry.section(SOURCE_KEYS)
    topics, pattern = section.get("topics"), section.get("topics_pattern")
    if (topics is None) == (pattern is None):
        raise entry.error("give either `topics: [orders]` or `topics_pattern: orders-.*`")
    start, isolation = section.get("starting_offsets"), section.get("isolation_level")
    most, servers = section.get("max_offsets_per_trigger"), section.get("bootstrap_servers")
    return Source(
        topics=() if topics is None else tuple(item.text() for item in topics.items()),
        topics_pattern=None if pattern is None else _pattern(pattern),
        starting_offsets="earliest" if start is None else start.choice(("earliest", "latest")),
        isolation_level="read_committed"
        if isolation is None
        else isolation.choice(ISOLATION_LEVELS),
        max_offsets_per_trigger=None if most is None else most.whole_number(),
        bootstrap_servers=None if servers is None else servers.text(),
    )


def _pattern(entry: Entry) -> str:
    try:
        re.compile(entry.text())
    except re.error as error:
        raise entry.error(
            f"{said(entry.value)} is not a pattern that Python and Java know: {error}"
        ) from error
    return entry.text()


def _schema(entry: Entry) -> Schema:
    section = entry.section(("format", "fields", "separator"))
    form = section.need("format", "json").choice(FORMATS)
    separator = section.get("separator")
    if separator is not None and (form != "csv" or len(separator.text()) != 1):
        raise separator.error("is one character, and only of `format: csv`")
    block = section.need("fields", "{city: string}")
    if not isinstance(block.value, dict) or not block.value:
        raise block.error("must be a block of `name: type`")
    fields = tuple(_field(name, item) for name, item in block.value.items())
    _refuse_twins(list(block.value.items()))
    if form == "plain" and [field.name for field in fields] != ["value"]:
        raise block.error("of `format: plain` is the one field `value`, such as `value: double`")
    return Schema(form, fields, "," if separator is None else separator.text())


def _field(name: str, entry: Entry) -> Field:
    _check_identifier(name, entry)
    if name.startswith("record_"):
        raise entry.error("names that begin with `record_` are those of the record itself")
    text = entry.text().lower()
    kind = text.removesuffix("?")
    decimal = DECIMAL.fullmatch(kind)
    fits = decimal is not None and int(decimal[2]) <= int(decimal[1]) <= 38
    if kind not in TYPES and not fits:
        allowed = ", ".join((*TYPES, "decimal(P,S)"))
        raise entry.error(
            f"{said(text)} is no type; allowed: {allowed}, and `?` after it if it may be null"
        )
    return Field(name, kind, text.endswith("?"))


def _event_time(entry: Entry, types: dict[str, str]) -> EventTime:
    ahead = None
    if isinstance(entry.value, dict):
        section = entry.section(("field", "ahead_max"))
        entry, ahead = section.need("field", "ordered_at"), section.get("ahead_max")
    field = _known_field(entry, types)
    if types[field] not in ("timestamp", "bigint"):
        raise entry.error(
            f"`{field}` is a {types[field]}; it must be a timestamp,"
            " or a bigint of milliseconds since 1970"
        )
    return EventTime(field, None if ahead is None else _duration_ms(ahead))


def _window(entry: Entry) -> Window:
    if not isinstance(entry.value, dict):
        size_ms = _duration_ms(entry)
        return Window(size_ms, size_ms)
    section = entry.section(("size", "slide"))
    size_ms = _duration_ms(section.need("size", "5 minutes"))
    slide = section.get("slide")
    slide_ms = size_ms if slide is None else _duration_ms(slide)
    if slide is not None and slide_ms > size_ms:
        raise slide.error("must not be longer than `size`, or events between windows are lost")
    return Window(size_ms, slide_ms)


def _key(entry: Entry | None, types: dict[str, str]) -> tuple[str, ...]:
    if entry is None:
        return ()
    names = tuple(_known_field(item, types) for item in entry.items())
    _refuse_twins([(item.text(), item) for item in entry.items()])
    return names


def _measures(entry: Entry, types: dict[str, str], key: Sequence[str]) -> tuple[Measure, ...]:
    if not isinstance(entry.value, dict) or not entry.value:
        raise entry.error("must be a block of `name: function(field)`")
    taken = {name.lower() for name in (*key, "window_start", "window_end", "date")}
    measures = []
    for name, item in entry.value.items():
        _check_identifier(name, item)
        if name.lower() in taken:
            raise item.error("the result has a column of this name already")
        measures.append(Measure(name, _expression(item, types), item))
    _refuse_twins([(measure.name, measure.entry) for measure in measures])
    return tuple(measures)


def _expression(entry: Entry, types: dict[str, str]) -> str:
    text = entry.text().strip()
    allowed = "; ".join(FUNCTIONS.values())
    found = MEASURE.fullmatch(text)
    if found is None:
        raise entry.error(f"{said(text)} is not `function(field)`; allowed: {allowed}")
    function, argument = found[1].lower(), (found[2] or "").strip()
    if function not in FUNCTIONS:
        raise entry.error(f"there is no function `{function}`; allowed: {allowed}")
    if function == "count" and argument in ("", "*"):
        return "count(1)"
    if not argument:
        raise entry.error(f"of what? Write {FUNCTIONS[function]}")
    field = argument.split(",")[0].strip()
    if IDENTIFIER.fullmatch(field):  # anything else is Spark SQL, which Spark checks
        _check_argument(entry, function, field, types)
    return f"{NULL_ON_OVERFLOW.get(function, function)}({argument})"


def _check_argument(entry: Entry, function: str, field: str, types: dict[str, str]) -> None:
    if field not in types:
        raise entry.error(f"there is no field `{field}`{nearest(field, types)}")
    if function in OF_NUMBERS and types[field] not in NUMBERS and "decimal" not in types[field]:
        raise entry.error(f"{function} needs a number, and `{field}` is a {types[field]}")


def _output(entry: Entry) -> Output:
    section = entry.section(("mode", "topic", "parquet"))
    topic, parquet, mode = (section.get(name) for name in ("topic", "parquet", "mode"))
    if topic is None and parquet is None:
        raise entry.error("give `topic: totals`, `parquet: DIR`, or both")
    chosen = "append" if mode is None else mode.choice(("append", "update"))
    if mode is not None and chosen == "update" and parquet is not None:
        raise mode.error(
            "rows in Parquet can't be changed: use `append`,"
            " or one spec for the topic and another for Parquet"
        )
    return Output(
        mode=chosen,
        topic=None if topic is None else topic.text(),
        parquet=None if parquet is None else parquet.text(),
    )


def _refuse_circle(dead_letters: Entry, source: Source) -> None:
    name = dead_letters.text()
    if name in source.topics or (
        source.topics_pattern and re.fullmatch(source.topics_pattern, name)
    ):
        raise dead_letters.error("is a topic that the rollup reads: it would never end")


def _known_field(entry: Entry, types: dict[str, str]) -> str:
    name = entry.text()
    if name not in types:
        raise entry.error(f"there is no field `{name}`{nearest(name, types)}")
    return name


def _check_identifier(name: str, entry: Entry) -> None:
    if not IDENTIFIER.fullmatch(name):
        raise entry.error("a name is made of letters, digits and `_`, and begins with no digit")


def _refuse_twins(names: list[tuple[str, Entry]]) -> None:
    """Refuse names that differ only in case: for Spark they are the same column."""
    seen: set[str] = set()
    for name, entry in names:
        if name.lower() in seen:
            raise entry.error(f"`{name}` is there twice; upper and lower case are the same")
        seen.add(name.lower())


def _duration_ms(entry: Entry, *, zero: bool = False) -> int:
    found = DURATION.fullmatch(str(entry.value).strip())
    duration_ms = int(found[1]) * UNIT_MS[found[2]] if found else 0
    if found is None or (duration_ms == 0 and not zero):
        units = ", ".join(f"{unit}s" for unit in UNIT_MS)
        raise entry.error(
            f"{said(entry.value)} is no duration, such as `10 minutes`; units: {units}"
        )
    return duration_ms
