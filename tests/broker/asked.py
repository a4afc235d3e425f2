"""Who waits for a log that others work on looks again and again: so a test sees that he waits."""

from odradek.storage.log.log import Log
from tests.support.awaiting import until


class Asked(set[Log]):
    """Logs that somebody works on; counts how often it is asked whether he does."""

    def __init__(self, *logs: Log) -> None:
        super().__init__(logs)
        self._count = 0

    def __contains__(self, log: object) -> bool:
        self._count += 1
        return super().__contains__(log)

    async def asked(self) -> None:
        """Return once somebody has asked twice from now on."""
        wanted = self._count + 2
        await until(lambda: self._count >= wanted)
