"""The broker's log on stderr: plain lines, or one JSON object a line."""

import logging
import math
import re
import sys
import time
from typing import Final

FORMATS: Final = ("plain", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
PLACEHOLDER: Final = r"%[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]"
PAIR: Final = rf" (\w+)=(?:({PLACEHOLDER})(?:%%)?|([^%=]+)$)|({PLACEHOLDER})|%%"
"""A name with a placeholder or, at the end, with a text; a placeholder without a name; a %."""
Value = str | int | float
_ESCAPED: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def set_up_logging(log_format: str, level: str) -> None:
    """Send everything from `level` up to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else PlainFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class PlainFormatter(logging.Formatter):
    """`2024-03-01T12:00:00.250Z INFO odradek.broker.server: what happened`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """One line: a name that a client chose must not look like a line of its own."""
        record.message = record.message.translate(_ESCAPED)
        return super().formatMessage(record)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """ISO, in UTC."""
        return _iso(record.created)


class JsonFormatter(logging.Formatter):
    """Keys time, level, logger and message, each `name=value` of the log line, and exception."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        import json

        message, values = parted(record)
        fields: dict[str, Value] = {
            "time": _iso(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": message,
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        pairs = {name: value for name, value in values.items() if name not in fields}
        return json.dumps({**fields, **pairs}, ensure_ascii=False)


def parted(record: logging.LogRecord) -> tuple[str, dict[str, Value]]:
    """The message without its `name=value` pairs, and the pairs.

    They are taken from the format, not from the text: a value may hold anything.
    """
    if not isinstance(record.msg, str) or not isinstance(record.args, tuple) or not record.args:
        return record.getMessage(), {}
    arguments = iter(record.args)
    values: dict[str, Value] = {}

    def take(found: re.Match[str]) -> str:
        name, form, text, unnamed = found.groups()
        if unnamed is not None:
            return str(unnamed % (next(arguments),))
        if name is None:
            return "%"
        values[name] = text if form is None else _value(form, next(arguments))
        return ""

    try:
        message = re.sub(PAIR, take, record.msg)
    except (StopIteration, TypeError, ValueError):  # a wrong format: let logging say so
        return record.getMessage(), {}
    return message, values


def _value(form: str, argument: object) -> Value:
    """A number as a number, unless JSON has none like it."""
    text = str(form % (argument,))
    if form[-1] in "di":
        return int(text)
    if form[-1] == "f" and math.isfinite(number := float(text)):
        return number
    return text


def _iso(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"
