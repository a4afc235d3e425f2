"""The levels of this process' loggers, changed by admin clients while it runs.

Kafka's levels are Log4j's; Python has no FATAL and TRACE, so these stand for CRITICAL and for all
that DEBUG leaves out.  Only Odradek's own loggers are here: the others are not the broker's.  As in
Kafka, nothing of it survives a restart.
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
    """What each of our loggers lets pass, by name."""
    names = [ROOT, *(name for name in logging.root.manager.loggerDict if _is_ours(name))]
    return {name: level_name(logging.getLogger(name).getEffectiveLevel()) for name in names}


def level_name(level: int) -> str:
    """Kafka's name of the least severe of its levels that passes."""
    passing = [name for name, least in LEVELS.items() if least >= level]
    return passing[-1] if passing else "FATAL"


def _is_ours(name: str) -> bool:
    known = logging.root.manager.loggerDict.get(name)
    return name.startswith(f"{ROOT}.") and isinstance(known, logging.Logger)


class Loggers:
    """Who has been given another level, and what it was before."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def check(self, name: str, level: str | None) -> None:
        """Let a change pass; `level` is None to undo it.  Raises: Refused (INVALID_CONFIG)."""
        if name != ROOT and not _is_ours(name):
            raise Refused(ErrorCode.INVALID_CONFIG, f"there is no logger {name[:100]!r}")
        if level is not None and level not in LEVELS:
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"{level[:100]!r} is no level: it must be one of {', '.join(LEVELS)}",
            )

    def set_level(self, name: str, level: str) -> None:
        """Let a logger, and those below it that have no level of their own, say more or less."""
        logger = logging.getLogger(name)
        self._before.setdefault(name, logger.level)
        logger.setLevel(LEVELS[level])

    def reset(self, name: str) -> None:
        """Give a logger back the level that it had."""
        level = self._before.pop(name, None)
        if level is not None:
            logging.getLogger(name).setLevel(level)

    def reset_all(self) -> None:
        """The broker stops: leave nothing behind in its process."""
        for name in list(self._before):
            self.reset(name)
