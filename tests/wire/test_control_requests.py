"""What Kafka's brokers said to each other: Kafka's own classes read it as we write it."""

import base64
import json
from collections import Counter

import pytest

from .message_json import (
    Asked,
    by_kafka,
    from_json,
    is_declared,
    recorded,
    request_class,
    response_class,
    with_records,
)

pytestmark = pytest.mark.java


def test_all_that_was_recorded_is_compared() -> None:
    counts = Counter(one.api_key for one in recorded())
    assert all(map(is_declared, counts))
    assert {4: 18, 5: 4, 6: 31, 24: 8, 27: 8}.items() <= counts.items()


def test_kafka_reads_what_we_write() -> None:
    asked, expected = [], []
    for one in recorded():
        for kind, cls, told in (
            ("request", request_class(one.api_key), one.request),
            ("response", response_class(one.api_key), one.response),
        ):
            data = bytes(from_json(cls, told).encode(one.version))
            text = base64.b64encode(data).decode()
            asked.append(Asked(one.api_key, one.version, kind, text))
            expected.append(told)
    printed = [json.loads(line) for line in by_kafka("decode", asked)]
    assert printed == expected


def test_we_read_what_kafka_writes() -> None:
    asked, expected = [], []
    for one in recorded():
        for kind, cls, told in (
            ("request", request_class(one.api_key), one.request),
            ("response", response_class(one.api_key), one.response),
        ):
            text = json.dumps(with_records(told))
            asked.append(Asked(one.api_key, one.version, kind, text))
            expected.append((cls, one.version, from_json(cls, told)))
    for line, (cls, version, message) in zip(by_kafka("encode", asked), expected, strict=True):
        data = base64.b64decode(line)
        decoded, end = cls.decode(data, version)
        assert end == len(data)
        assert decoded == message
        assert bytes(message.encode(version)) == data, "not one byte is different"
