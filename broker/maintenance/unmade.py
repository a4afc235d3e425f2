"""Retries what a full disk prevented, once the disk has space again.

These are replicas that could not be created, could not lead, or could not be deleted. The
controller is asked to send its requests again, as after a log directory failure.
"""

import asyncio
from typing import Final

from odradek.storage.directory.data_dir import DataDir
from odradek.storage.errors import LogDirFailed

from ..core.replica_status import Claim, Event, Presence
from ..partitions.replicas import Replicas
from ..runtime import Runtime

RETRY_MS = 10_000
ROOM_BYTES_MIN: Final = 1 << 20


class Unmade:
    """Retries for the replicas of one broker."""

    def __init__(self, replicas: Replicas, runtime: Runtime) -> None:
        self._replicas = replicas
        self._offload = runtime.offload

    async def run(self) -> None:
        """Check periodically, forever."""
        while True:
            await asyncio.sleep(RETRY_MS / 1000)
            if not self._replicas.is_offline and await self._must_ask():
                self._replicas.on_log_dir_failed(())

    async def _must_ask(self) -> bool:
        replicas, log_dirs = self._replicas, self._replicas.log_dirs
        statuses = replicas.statuses
        for key in statuses.where(Presence.UNDELETED):
            if not log_dirs.holds(key):  # its directory has failed
                statuses.note(key, Event.DELETE)
        # A replica with damaged files is left out: creating it would fail.
        wanted = any(not log_dirs.is_unserved(key) for key in statuses.where(Presence.UNMADE))
        if not (wanted or any(statuses.where(Presence.UNDELETED, Claim.REFUSED))):
            return False
        with_room = [d for d in list(log_dirs.online) if await self._has_room(d)]
        ready = [
            key
            for key in statuses.where(Presence.UNDELETED, Claim.REFUSED)
            if any(key in data_dir.logs or key in data_dir.unserved for data_dir in with_room)
        ]
        for key in ready:  # only once: a new failure is noted again
            statuses.note(key, Event.ASK)
        return bool(ready or (wanted and with_room))

    async def _has_room(self, data_dir: DataDir) -> bool:
        try:
            _, free_bytes = await self._offload(data_dir.space)
        except LogDirFailed as error:
            self._replicas.take_offline(error)
            return False
        return free_bytes >= ROOM_BYTES_MIN
