"""Who waits for a log that others work on looks again and again: so a test sees that it waits."""

from odradek.broker.core.log_uses import Act, LogUses
from odradek.storage.log.log import Log
from tests.support.awaiting import until


class Asked(LogUses):
    """Counts how often it is asked what may begin."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def may(self, act: Act, log: Log) -> bool:
        self._count += 1
        return super().may(act, log)

    async def asked(self) -> None:
        """Return once somebody has asked twice from now on."""
        wanted = self._count + 2
        await until(lambda: self._count >= wanted)
