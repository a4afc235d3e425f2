"""The log's two formats."""

import json
import logging
import sys

import pytest

from odradek.cli.logs import JsonFormatter, PlainFormatter


def record(message: str, *arguments: object, error: bool = False) -> logging.LogRecord:
    exc_info = sys.exc_info() if error else None
    made = logging.LogRecord("odradek.x", logging.INFO, "x.py", 1, message, arguments, exc_info)
    made.created = 1_709_294_400.25
    return made


def test_plain() -> None:
    line = PlainFormatter().format(record("topic=%s", "t"))
    assert line == "2024-03-01T12:00:00.250Z INFO odradek.x: topic=t"


def test_json_is_one_line_whatever_the_message_holds() -> None:
    line = JsonFormatter().format(record("two\nlines %s", "ü"))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2024-03-01T12:00:00.250Z",
        "level": "INFO",
        "logger": "odradek.x",
        "message": "two\nlines ü",
    }


@pytest.mark.parametrize(
    ("line", "arguments", "message", "values"),
    [
        (
            "topic created topic=%s partitions=%d",
            ("a b=c", 3),
            "topic created",
            {"topic": "a b=c", "partitions": 3},
        ),
        ("session renewed id=%#x", (255,), "session renewed", {"id": "0xff"}),
        ("ISRs %s broker=%d", ("joined", 1), "ISRs joined", {"broker": 1}),
        (
            "log not cleaned log=%r reason=it has changed",
            ("l",),
            "log not cleaned",
            {"log": "'l'", "reason": "it has changed"},
        ),
        (
            "log cleaned ratio=%.2f used=%.1f%%",
            (0.5, 12.34),
            "log cleaned",
            {"ratio": 0.5, "used": 12.3},
        ),
        (
            "closed offset=%d size=%.0f",
            (2**53 + 1, 3.0),
            "closed",
            {"offset": 2**53 + 1, "size": 3},
        ),
        ("loaded ratio=%.2f", (float("inf"),), "loaded", {"ratio": "inf"}),
        ("records=%d -> %d", (8, 3), "records=8 -> 3", {}),
        ("100%% of %s", ("it",), "100% of it", {}),
        ("as it is: 100%% a=b", (), "as it is: 100%% a=b", {}),
        ("nothing= of %s", ("it",), "nothing= of it", {}),
        ("odd time=%s level=%s", ("t", "x"), "odd", {}),
        ("of=%(name)s", ({"name": "kazoo"},), "of=kazoo", {}),
    ],
)
def test_json_has_what_a_line_says_as_fields(
    line: str, arguments: tuple[object, ...], message: str, values: dict[str, object]
) -> None:
    entry = json.loads(JsonFormatter().format(record(line, *arguments)))
    own = {"time": "2024-03-01T12:00:00.250Z", "level": "INFO", "logger": "odradek.x"}
    assert entry == {**own, "message": message, **values}


def test_json_leaves_a_wrong_format_to_logging() -> None:
    with pytest.raises(TypeError):
        JsonFormatter().format(record("topic=%s partitions=%d", "a"))


def test_json_carries_the_traceback() -> None:
    try:
        raise OSError("disk")
    except OSError:
        line = JsonFormatter().format(record("failed", error=True))
    assert "\n" not in line
    assert json.loads(line)["exception"].endswith("OSError: disk")


def test_a_name_that_a_client_chose_makes_no_line_of_its_own() -> None:
    line = PlainFormatter().format(record("group=%s", "a\n2026 ERROR forged\x1b[0m"))
    assert "\n" not in line
    assert "group=a\\x0a2026 ERROR forged\\x1b[0m" in line
