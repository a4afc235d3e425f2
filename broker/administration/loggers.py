"""The levels of this process' loggers, which admin clients change at runtime.

Kafka's levels are Log4j's.  Python has no FATAL and TRACE: FATAL stands for CRITICAL, and TRACE for
a level below DEBUG.  Only Odradek's own loggers are included.  As in Kafka, changes are lost at a
restart.
"""

import logging
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused

ROOT: Final = "odradek"
TRACE: Final = 5
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}


def logger_levels() -> dict[str, str]:
    """The effective level of each of Odradek's loggers, by name."""
    names = [ROOT, *(name for name in logging.root.manager.loggerDict if _is_ours(name))]
    return {name: level_name(logging.getLogger(name).getEffectiveLevel()) for name in names}


def level_name(level: int) -> str:
    """The name of the least severe of Kafka's levels that a logger with this level logs."""
    passing = [name for name, least in LEVELS.items() if least >= level]
    return passing[-1] if passing else "FATAL"


def _is_ours(name: str) -> bool:
    known = logging.root.manager.loggerDict.get(name)
    return name.startswith(f"{ROOT}.") and isinstance(known, logging.Logger)


class Loggers:
    """Changes levels, and remembers the original ones."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def check(self, name: str, level: str | None) -> None:
        """Check a change; `level` None is a reset.  Raises: Refused (INVALID_CONFIG)."""
        if name != ROOT and not _is_ours(name):
            raise Refused(ErrorCode.INVALID_CONFIG, f"there is no logger {name[:100]!r}")
        if level is not None and level not in LEVELS:
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"{level[:100]!r} is no level: it must be one of {', '.join(LEVELS)}",
            )

    def set_level(self, name: str, level: str) -> None:
        """Set the level of a logger and of those below it that have no level of their own."""
        logger = logging.getLogger(name)
        self._before.setdefault(name, logger.level)
        logger.setLevel(LEVELS[level])

    def reset(self, name: str) -> None:
        """Restore the original level of a logger."""
        level = self._before.pop(name, None)
        if level is not None:
            logging.getLogger(name).setLevel(level)

    def reset_all(self) -> None:
        """Restore all original levels, when the broker stops."""
        for name in list(self._before):
            self.reset(name)
