"""Replicas that a full disk had no room for are made once it has some.

The controller is asked to say again who leads what, as after a log directory has failed.
"""

import asyncio
from typing import Final

from odradek.storage.errors import LogDirFailed

from ..replicas import Replicas
from ..runtime import Runtime

RETRY_MS = 10_000
ROOM_BYTES_MIN: Final = 1 << 20


class Unmade:
    """Looks after the replicas of one broker that could not be made."""

    def __init__(self, replicas: Replicas, runtime: Runtime) -> None:
        self._replicas = replicas
        self._offload = runtime.offload

    async def run(self) -> None:
        """Look for ever."""
        replicas = self._replicas
        while True:
            await asyncio.sleep(RETRY_MS / 1000)
            # Those whose files are damaged would not come about by being made.
            wanted = [key for key in replicas.unmade if not replicas.log_dirs.is_unserved(key)]
            if wanted and not replicas.is_offline and await self._has_room():
                replicas.on_log_dir_failed(())

    async def _has_room(self) -> bool:
        for data_dir in list(self._replicas.log_dirs.online):
            try:
                _, free_bytes = await self._offload(data_dir.space)
            except LogDirFailed as error:
                self._replicas.take_offline(error)
                continue
            if free_bytes >= ROOM_BYTES_MIN:
                return True
        return False
