"""The audit log: who was refused what, a limited number of lines a minute.

A line appears once a minute for the same client, API and kind of resource. The first name that was
refused is in it. Clients choose the names, and partly their principal: such text is escaped.
"""

import logging
from collections import Counter
from typing import Final

from ..core.acls.terms import Operation, ResourceType
from ..runtime import Clock

logger = logging.getLogger(__name__)

LINES_MAX: Final = 100
"""In each minute."""
LINES_OF_ONE_MAX: Final = 50
"""In each minute, about one principal: nobody can use up the lines about others."""
MINUTE_MS: Final = 60_000
TEXT_LENGTH_MAX: Final = 256


class Audit:
    """Writes who was refused what."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._minute = -1
        self._told: set[tuple[str, str, str, Operation, ResourceType]] = set()
        self._lines_of: Counter[str] = Counter()
        self._omitted = 0

    def denied(
        self,
        principal: str,
        host: str,
        api_name: str,
        operation: Operation,
        kind: ResourceType,
        name: str,
    ) -> None:
        """Note that a client lacks a right for its request."""
        minute = self._clock.now_ms() // MINUTE_MS
        if minute != self._minute:
            if self._omitted:
                logger.info("access denied more often, %d times without a line", self._omitted)
            self._minute, self._omitted = minute, 0
            self._told.clear()
            self._lines_of.clear()
        key = principal, host, api_name, operation, kind
        is_full = len(self._told) >= LINES_MAX or self._lines_of[principal] >= LINES_OF_ONE_MAX
        if is_full or key in self._told:
            self._omitted += 1
            return
        self._told.add(key)
        self._lines_of[principal] += 1
        logger.info(
            "access denied principal=%s host=%s api=%s operation=%s resource=%s:%s",
            _escaped(principal),
            host,
            api_name,
            operation.text,
            kind.text,
            _escaped(name),
        )


def _escaped(text: str) -> str:
    """Text of a client that can't end the line, or look like another field."""
    return ascii(text[:TEXT_LENGTH_MAX])
