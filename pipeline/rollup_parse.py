"""Spark SQL from a spec: parses records into fields, and says what is wrong with bad ones.

Fields are parsed by their types. A record is bad if a field is missing, null without a `?`, or of
another type, or if its event time is missing or too far ahead. Only bad records are parsed again,
as text, to find the reason, so good ones don't pay for it.

Columns that begin with `odradek_` are ours.
"""

from typing import Final

from .marks import HEADER
from .rollup_spec import Field, Rollup
from .spark_types import DataFrame

REASON_HEADER: Final = "odradek.reason"
CORRUPT: Final = "odradek_corrupt"
TIME: Final = "odradek_time"
SHOWN_CHARACTERS_MAX: Final = 60
YEAR_1_MS: Final = -62_135_596_800_000
YEAR_10000_MS: Final = 253_402_300_800_000


def parsed(records: DataFrame, spec: Rollup) -> DataFrame:
    """Records of Spark's Kafka source, with headers, parsed into fields.

    `odradek_good` says whether the fields conform to the spec, `odradek_time` is the event time.
    """
    fields = [f"odradek_fields.`{field.name}` AS `{field.name}`" for field in spec.schema.fields]
    return (
        records.selectExpr(
            "CAST(key AS STRING) AS record_key",
            "topic AS record_topic",
            "partition AS record_partition",
            "timestamp AS record_timestamp",
            "key AS odradek_key",
            "value AS odradek_value",
            "headers AS odradek_headers",
            "offset AS odradek_offset",
            f"{typed(spec, 'value')} AS odradek_fields",
        )
        .selectExpr("*", *fields)
        .selectExpr("*", f"{event_time(spec)} AS {TIME}")
        .selectExpr("*", f"coalesce({is_good(spec)}, false) AS odradek_good")
    )


def dead_letters(classified: DataFrame, spec: Rollup) -> DataFrame:
    """The bad records of `parsed`, for Kafka: unchanged, with headers that give the reason."""
    place = "record_topic, '/', record_partition, '/', odradek_offset"
    source = _header(HEADER, f"concat({place}, {literal('#' + spec.name)})")
    reason = _header(REASON_HEADER, "odradek_reason")
    return with_reasons(classified, spec).selectExpr(
        "odradek_key AS key",
        "odradek_value AS value",
        f"concat(coalesce(odradek_headers, array()), array({reason}, {source})) AS headers",
    )


def with_reasons(classified: DataFrame, spec: Rollup) -> DataFrame:
    """The bad records of `parsed`, with `odradek_reason`."""
    return (
        classified.where("NOT odradek_good")
        .selectExpr("*", f"{texts(spec, 'odradek_value')} AS odradek_texts")
        .selectExpr("*", f"{reason(spec)} AS odradek_reason")
    )


def typed(spec: Rollup, value: str) -> str:
    """The value as a struct of the spec's types."""
    return _struct(spec, value, {field.name: field.type for field in spec.schema.fields})


def texts(spec: Rollup, value: str) -> str:
    """The value as a struct of strings, whatever the types of its fields."""
    return _struct(spec, value, {field.name: "string" for field in spec.schema.fields})


def event_time(spec: Rollup) -> str:
    """The event time as a timestamp, null if it is outside of the years 1 to 9999."""
    name = spec.event_time.field
    if spec.type_of(name) == "bigint":
        fits = f"`{name}` >= {YEAR_1_MS}L AND `{name}` < {YEAR_10000_MS}L"
        return f"CASE WHEN {fits} THEN timestamp_millis(`{name}`) END"
    fits = f"unix_millis(`{name}`) >= {YEAR_1_MS}L AND unix_millis(`{name}`) < {YEAR_10000_MS}L"
    return f"CASE WHEN {fits} THEN `{name}` END"


def is_good(spec: Rollup) -> str:
    """Whether a record conforms to the spec; null counts as false."""
    conditions = ["odradek_fields IS NOT NULL", f"{TIME} IS NOT NULL"]
    if spec.schema.format != "plain":
        conditions.append(f"odradek_fields.{CORRUPT} IS NULL")
    conditions += [f"`{one.name}` IS NOT NULL" for one in spec.schema.fields if not one.nullable]
    if spec.schema.format == "plain":  # only a null value is absent: one of another type is bad
        conditions.append("(odradek_value IS NULL OR `value` IS NOT NULL)")
    if spec.event_time.ahead_ms_max is not None:
        conditions.append(f"NOT {_ahead(spec)}")
    return " AND ".join(conditions)


def reason(spec: Rollup) -> str:
    """Why a record is bad, in one sentence: the first fault."""
    form = spec.schema.format
    cases = [("odradek_value IS NULL", "'value is null'")]
    if form != "plain":
        cases.append(("length(odradek_value) = 0", "'value is empty'"))
    broken = f"odradek_texts IS NULL OR odradek_texts.{CORRUPT} IS NOT NULL"
    if form == "json":
        cases.append((broken, "'value is not a JSON object'"))
    if form == "csv":
        cases.append((broken, f"'value is not a line of {len(spec.schema.fields)} columns'"))
    for field in spec.schema.fields:
        cases += _field_cases(field)
    name = spec.event_time.field
    cases.append((f"`{name}` IS NULL", f"'field {name} is null, and it is the event time'"))
    cases.append((f"{TIME} IS NULL", f"'field {name} is no time of the years 1 to 9999'"))
    if spec.event_time.ahead_ms_max is not None:
        said = f"concat('event time ', {TIME}, ' is ahead of the record, ', record_timestamp)"
        cases.append((_ahead(spec), said))
    whens = " ".join(f"WHEN {condition} THEN {said}" for condition, said in cases)
    return f"CASE {whens} ELSE 'value does not fit the schema' END"


def literal(text: str) -> str:
    """A string literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _field_cases(field: Field) -> list[tuple[str, str]]:
    text, name = f"odradek_texts.`{field.name}`", field.name
    shown = f"left({text}, {SHOWN_CHARACTERS_MAX})"
    wrong = f"concat('field {name}: ', {shown}, ' is not of type {field.type}')"
    cases = [(f"{text} IS NOT NULL AND `{name}` IS NULL", wrong)]
    if not field.nullable:
        cases.append((f"{text} IS NULL", f"'field {name} is missing or null'"))
    return cases


def _struct(spec: Rollup, value: str, types: dict[str, str]) -> str:
    text = f"CAST({value} AS STRING)"
    if spec.schema.format == "plain":
        return f"named_struct('value', try_cast({text} AS {types['value']}))"
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
    options = f"'mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}'"
    if spec.schema.format == "csv":
        options += f", 'sep', {literal(spec.schema.separator)}"
    schema = literal(f"{ddl}, {CORRUPT} string")
    return f"from_{spec.schema.format}({text}, {schema}, map({options}))"


def _ahead(spec: Rollup) -> str:
    ahead_ms = f"unix_millis({TIME}) - unix_millis(record_timestamp)"
    return f"{ahead_ms} > {spec.event_time.ahead_ms_max}L"


def _header(name: str, value: str) -> str:
    return f"named_struct('key', {literal(name)}, 'value', CAST({value} AS BINARY))"
