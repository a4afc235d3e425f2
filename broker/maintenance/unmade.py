"""Replicas that a full disk had no room for are made once it has some; those that it kept from
leading may lead then, and those that it kept from being deleted are deleted.

The controller is asked to say again who leads what, as after a log directory has failed.
"""

import asyncio
from typing import Final

from odradek.storage.directory.data_dir import DataDir
from odradek.storage.errors import LogDirFailed

from ..partitions.replicas import Replicas
from ..runtime import Runtime

RETRY_MS = 10_000
ROOM_BYTES_MIN: Final = 1 << 20


class Unmade:
    """Looks after the replicas of one broker that could not be made, or deleted."""

    def __init__(self, replicas: Replicas, runtime: Runtime) -> None:
        self._replicas = replicas
        self._offload = runtime.offload

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(RETRY_MS / 1000)
            if not self._replicas.is_offline and await self._must_ask():
                self._replicas.on_log_dir_failed(())

    async def _must_ask(self) -> bool:
        replicas, log_dirs = self._replicas, self._replicas.log_dirs
        # Those whose files are damaged would not come about by being made.
        wanted = [key for key in replicas.unmade if not log_dirs.is_unserved(key)]
        # A directory that has failed took away what was to be deleted in it.
        replicas.undeleted = {key for key in replicas.undeleted if log_dirs.holds(key)}
        if not (wanted or replicas.refused or replicas.undeleted):
            return False
        with_room = [d for d in list(log_dirs.online) if await self._has_room(d)]
        replicas.refused &= replicas.partitions.keys()
        ready = {
            key
            for key in replicas.refused
            if log_dirs.of(replicas.partitions[key].log.directory) in with_room
        }
        replicas.refused -= ready  # once: if they are refused again they are here again
        deletable = {
            key
            for key in replicas.undeleted
            if any(key in d.logs or key in d.unserved for d in with_room)
        }
        replicas.undeleted -= deletable
        return bool(ready or deletable or (wanted and with_room))

    async def _has_room(self, data_dir: DataDir) -> bool:
        try:
            _, free_bytes = await self._offload(data_dir.space)
        except LogDirFailed as error:
            self._replicas.take_offline(error)
            return False
        return free_bytes >= ROOM_BYTES_MIN
