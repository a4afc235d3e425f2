"""Records as JSON lines, the same in both directions.

One record is one object on one line.  Bytes that are UTF-8 are a string, other bytes are
`{"base64": "…"}`, null is null.  Headers are a list of [name, value], because names may repeat.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# As confluent-kafka numbers them.
TIMESTAMP_TYPES: Final = {1: "CreateTime", 2: "LogAppendTime"}
READ_BACK: Final = {"key", "value", "headers", "partition", "timestamp"}
NO_TIMESTAMP: Final = -1
IGNORED: Final = {"topic", "offset", "timestamp_type"}
# Not a default argument of json.dumps: built once, it is 3 times as fast per line.
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

Headers = list[tuple[str, bytes | None]]


@dataclass(slots=True)
class Outgoing:
    """One record to write; with None, the client chooses the partition or time."""

    key: bytes | None
    value: bytes | None
    headers: Headers = field(default_factory=list)
    partition: int | None = None
    timestamp_ms: int | None = None


def record_to_json(message: Any) -> str:
    """One line, without its newline, for a message of confluent-kafka."""
    timestamp_type, timestamp_ms = message.timestamp()
    return _encode(
        {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": timestamp_ms,
            "timestamp_type": TIMESTAMP_TYPES.get(timestamp_type),
            "key": _from_bytes(message.key()),
            "value": _from_bytes(message.value()),
            "headers": [[name, _from_bytes(value)] for name, value in message.headers() or ()],
        }
    )


def record_from_json(line: bytes) -> Outgoing:
    """The record in a line.  Raises: ValueError with a sentence."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    if unknown := fields.keys() - READ_BACK - IGNORED:
        raise ValueError(f"unknown field {min(unknown)!r}")
    if "value" not in fields:
        raise ValueError("has no field 'value' (null is a tombstone)")
    if fields.get("timestamp") == 0:
        raise ValueError("timestamp 0 cannot be written: librdkafka takes it for the present")
    return Outgoing(
        key=_to_bytes("key", fields.get("key")),
        value=_to_bytes("value", fields["value"]),
        headers=_headers(fields.get("headers", [])),
        partition=_whole_number(fields, "partition", at_least=0, below=1 << 31),
        timestamp_ms=_whole_number(fields, "timestamp", at_least=NO_TIMESTAMP, below=1 << 63),
    )


def _from_bytes(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _to_bytes(name: str, value: object) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return _utf8(name, value)
        case {"base64": str(text), **rest} if not rest:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise ValueError(f"field {name!r} is not base64: {error}") from None
    raise ValueError(f'field {name!r} is not a string, null or {{"base64": "…"}}')


def _headers(value: object) -> Headers:
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list):
        raise ValueError("field 'headers' is not a list of [name, value]")
    headers: Headers = []
    for pair in pairs:
        match pair:
            case (str(name), content) | [str(name), content]:
                if b"\0" in _utf8("headers", name):
                    raise ValueError("the name of a header holds NUL, at which librdkafka ends it")
                headers.append((name, _to_bytes("headers", content)))
            case _:
                raise ValueError("field 'headers' is not a list of [name, value]")
    return headers


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell
        raise ValueError(f"field {name!r} is not Unicode text") from None


def _whole_number(
    fields: Mapping[str, object], name: str, *, at_least: int, below: int
) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"field {name!r} is not a whole number")
    if not at_least <= value < below:
        raise ValueError(f"field {name!r} is out of range")
    return value
