"""Reports of places in logs that may be damaged; the scrubber verifies them one by one.

A follower that fetches the same records again and again can't append them; a read that finds
invalid data reports it directly. There may be other reasons (a follower's disk is full), or a
client may cause false reports. So a verified log is not verified again for a while, and each time
for longer.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from odradek.storage.log.log import Log

from ..core.partition_state import TopicPartition
from ..runtime import Clock

logger = logging.getLogger(__name__)

SILENCE_MS: Final = 30_000
SILENCE_MAX_MS: Final = 3_600_000


@dataclass(slots=True)
class _Verified:
    """A log that was verified, and is not verified again for a while."""

    log: Log
    until_ms: int
    silence_ms: int


class DamageReports:
    """The places to verify; at most one in each log."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[TopicPartition, tuple[Log, int]] = {}
        self._verified: dict[TopicPartition, _Verified] = {}
        self._changed = asyncio.Event()

    def report(self, log: Log, offset: int, reason: str) -> None:
        """Have the records at this offset verified soon."""
        key = log.topic, log.partition
        before = self._verified.get(key)
        if key in self._waiting:
            return
        if before and before.log is log and self._clock.now_ms() < before.until_ms:
            return
        logger.warning("damage reported log=%r offset=%d reason=%s", log, offset, reason)
        self._waiting[key] = log, offset
        self._changed.set()

    async def next(self) -> tuple[Log, int]:
        """Return the report that has waited longest; call `verified` with the outcome."""
        while not self._waiting:
            self._changed.clear()
            await self._changed.wait()
        return next(iter(self._waiting.values()))

    def verified(self, log: Log, offset: int, *, is_sound: bool) -> None:
        """Note the outcome of verifying a report."""
        key, now_ms = (log.topic, log.partition), self._clock.now_ms()
        before = self._verified.pop(key, None)
        again = before is not None and before.log is log
        silence_ms = min(2 * before.silence_ms, SILENCE_MAX_MS) if before and again else SILENCE_MS
        over = now_ms - SILENCE_MAX_MS
        self._verified = {k: c for k, c in self._verified.items() if c.until_ms > over}
        self._verified[key] = _Verified(log, now_ms + silence_ms, silence_ms)
        self._waiting.pop(key, None)
        if is_sound:
            logger.warning("reported records are sound log=%r offset=%d", log, offset)
