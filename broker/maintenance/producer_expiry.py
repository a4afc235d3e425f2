"""Removes the state of idempotent producers that have been silent for too long."""

from typing import Final

from ..config import Config
from ..partitions.replicas import Replicas
from ..runtime import Runtime

CHECK_MS: Final = 600_000


class ProducerExpiry:
    """Expires producers on one broker."""

    def __init__(self, replicas: Replicas, config: Config, runtime: Runtime) -> None:
        self._replicas = replicas
        self._config = config
        self._clock = runtime.clock

    async def run(self) -> None:
        """Expire producers in all logs, forever."""
        while True:
            await self._clock.sleep(CHECK_MS)
            self.expire()

    def expire(self) -> int:
        """Remove the producers that have been silent for too long; return how many."""
        wall_ms = self._clock.wall_ms()
        return sum(
            partition.log.producers.expire(
                wall_ms, producer_id_expiration_ms=self._config.producer_id_expiration_ms
            )
            for partition in self._replicas.partitions.values()
        )
