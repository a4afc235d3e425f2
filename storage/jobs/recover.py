"""The job that recovers partitions after an unclean shutdown and closes them, one at a time.

Arguments: "partitions", a list of {"directory", "topic", "partition", "recovery_point",
"log_start_offset", "high_watermark", "config" (the fields of `LogConfig`)}; "wall_ms".

Result: "partitions", in order: either {"log_end_offset", "log_start_offset", "high_watermark",
"report" (the fields of `LoadReport`)}, and the broker can load it as after a clean shutdown, or
{"error"}, and the broker must recover it itself. "warnings": the warnings and errors that the job
logged, at most `WARNINGS_MAX`.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..errors import StorageError
from ..files import FileSystem
from ..log.load_report import LoadReport
from ..log.log_config import LogConfig
from ..recovery.load import LoadHints, load_log
from . import Arguments, Report, Result

WARNINGS_MAX: Final = 1000
logger: Final = logging.getLogger("odradek.storage")


class _Kept(logging.Handler):
    """Keeps the log messages for the parent, which logs them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.lines) < WARNINGS_MAX:
            self.lines.append((record.levelno, record.getMessage()))


def run(arguments: Arguments, files: FileSystem, report: Report) -> Result:
    """Recover the given partitions.  `report` gets the bytes scanned so far."""
    done_bytes = 0

    def count(size_bytes: int) -> None:
        nonlocal done_bytes
        done_bytes += size_bytes
        report(done_bytes)

    kept = _Kept()
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(kept)
    try:
        recovered = [
            _recover_one(partition, arguments["wall_ms"], files, count)
            for partition in arguments["partitions"]
        ]
    finally:
        logger.removeHandler(kept)
        logger.propagate = propagates
    return {"partitions": recovered, "warnings": kept.lines}


def _recover_one(
    partition: Mapping[str, Any], wall_ms: int, files: FileSystem, count: Callable[[int], None]
) -> Result:
    try:
        log = load_log(
            files,
            partition["directory"],
            partition["topic"],
            partition["partition"],
            config=LogConfig(**partition["config"]),
            hints=LoadHints(
                clean=False,
                recovery_point=partition["recovery_point"],
                log_start_offset=partition["log_start_offset"],
                high_watermark=partition["high_watermark"],
            ),
            wall_ms=wall_ms,
            on_progress=count,
        )
        try:
            log.close()
        finally:
            log.abandon()
    except StorageError as error:
        return {"error": str(error)}
    return {
        "log_end_offset": log.log_end_offset,
        "log_start_offset": log.log_start_offset,
        "high_watermark": log.high_watermark,
        "report": (log.loaded or LoadReport()).to_json(),
    }
