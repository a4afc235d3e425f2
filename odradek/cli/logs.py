"""The broker's log on stderr: plain lines, or one JSON object a line."""

import logging
import sys
import time
from typing import Final

FORMATS: Final = ("plain", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
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
    """Keys time, level, logger, message, and exception where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        import json

        fields = {
            "time": _iso(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def _iso(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"
