"""Controller writes: every transaction is fenced by the version of /controller_epoch."""

import asyncio
from collections.abc import Sequence
from typing import Final

from ..coordination import znodes
from ..coordination.interface import (
    Check,
    CoordinationError,
    CoordinationLost,
    Delete,
    MultiFailed,
    NoNode,
    NotEmpty,
    Op,
    Session,
)
from ..core.controller.effects import ControllerMoved
from .election import Mandate
from .reading import children
from .store_calls import RETRY_BACKOFF_S, map_concurrently, until_connected

OPS_MAX: Final = 500
DELETE_ATTEMPTS_MAX: Final = 10
FENCE_INDEX: Final = 0


class OpRefused(CoordinationError):
    """Nothing was written, because the operation at `index` failed with `error`.

    `is_retry`: the answer to an earlier attempt was lost, and that attempt may be in the way now.
    """

    def __init__(self, index: int, error: CoordinationError, *, is_retry: bool) -> None:
        super().__init__(f"operation {index}: {type(error).__name__}: {error}")
        self.index = index
        self.error = error
        self.is_retry = is_retry


class FencedWriter:
    """Writes to the store while this broker's mandate lasts."""

    def __init__(self, session: Session, mandate: Mandate) -> None:
        self._session = session
        self._fence = Check(znodes.CONTROLLER_EPOCH, mandate.epoch_version)

    async def write(self, ops: Sequence[Op]) -> None:
        """Apply all of `ops` (at most OPS_MAX) or none; wait for a connection if there is none.

        Raises: ControllerMoved, OpRefused, RequestTooLarge, SessionExpired.
        """
        is_retry = False
        while True:
            try:
                await self._session.multi([self._fence, *ops])
            except CoordinationLost:
                is_retry = True
                await asyncio.sleep(RETRY_BACKOFF_S)
            except MultiFailed as failed:
                if failed.index == FENCE_INDEX:
                    raise ControllerMoved(str(failed)) from failed
                raise OpRefused(failed.index - 1, failed.error, is_retry=is_retry) from failed
            else:
                return

    async def delete_if_there(self, path: str) -> None:
        """Delete a znode if it exists; it rarely has children, but they are deleted too."""
        try:
            await self.write([Delete(path)])
        except OpRefused as refused:
            if isinstance(refused.error, NotEmpty):
                await self.delete_tree(path)
            elif not isinstance(refused.error, NoNode):
                raise

    async def delete_tree(self, path: str) -> None:
        """Delete a znode and everything below it, children first, if it exists."""
        for _ in range(DELETE_ATTEMPTS_MAX):
            try:
                for ops in await self._deletions(path):
                    await self.write(ops)
            except OpRefused as refused:  # another client creates or deletes znodes there
                if not isinstance(refused.error, NoNode | NotEmpty):
                    raise
            else:
                return
        raise RuntimeError(f"{path} is not deleted: other clients keep creating znodes below it")

    async def _deletions(self, path: str) -> list[list[Op]]:
        if await until_connected(lambda: self._session.exists(path)) is None:
            return []
        levels = [[path]]
        while levels[-1]:
            found = await map_concurrently(
                lambda parent: children(self._session, parent), levels[-1]
            )
            pairs = zip(levels[-1], found, strict=True)
            levels.append([f"{parent}/{name}" for parent, names in pairs for name in names])
        ops: list[Op] = [Delete(node) for level in reversed(levels) for node in level]
        return [ops[start : start + OPS_MAX] for start in range(0, len(ops), OPS_MAX)]
