"""The log's two formats."""

import json
import logging
import sys

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
