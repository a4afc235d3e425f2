"""A process with numpy and pyarrow, but without Spark, that reads data directories.

Takes the options of a read a line, as JSON, and answers with one line: the rows of all ranges and
what was logged, or the error.
"""

import json
import logging
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.segments.options import parse_options
from odradek.pipeline.segments.planning import plan
from odradek.pipeline.segments.pushdown import EVERYTHING, Narrowing
from odradek.pipeline.segments.reading import read_range
from odradek.storage.inspect.read_only import ReadOnlyFileSystem

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def answer(given: dict[str, str]) -> dict[str, Any]:
    """All rows, in order of the ranges."""
    said = Said()
    logger = logging.getLogger("odradek.pipeline.segments")
    logger.addHandler(said)
    files = ReadOnlyFileSystem()
    try:
        since = given.pop("timestampMsMin", None)
        narrowing = EVERYTHING if since is None else Narrowing(timestamp_ms_min=int(since))
        options = parse_options(given)
        rows = []
        for wanted in plan(files, options, narrowing):
            ms_min = narrowing.timestamp_ms_min
            for batch in read_range(files, wanted, options, timestamp_ms_min=ms_min):
                batch.validate(full=True)
                rows += [plain(row) for row in batch.to_pylist()]
    except PipelineError as error:
        return {"error": str(error)}
    finally:
        logger.removeHandler(said)
    return {"rows": rows, "said": said.lines}


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row that JSON can tell."""
    if "timestamp" in row:
        time = row["timestamp"]
        row["timestamp"] = time and (time - EPOCH) // timedelta(milliseconds=1)
        row |= {name: text(row[name]) for name in ("key", "value")}
        if row.get("headers") is not None:
            row["headers"] = [[each["key"], text(each["value"])] for each in row["headers"]]
    return row


def text(data: bytes | None) -> str | None:
    """Bytes as characters of the same numbers."""
    return None if data is None else data.decode("latin-1")


class Said(logging.Handler):
    """What was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
