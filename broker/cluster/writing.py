"""How a controller writes: every transaction is fenced by the version of /controller_epoch."""

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
    Op,
    Session,
)
from ..core.controller.effects import ControllerMoved
from .election import Mandate
from .pipeline import RETRY_BACKOFF_S

OPS_MAX: Final = 500
FENCE_INDEX: Final = 0


class OpRefused(CoordinationError):
    """Nothing was written, because the operation at `index` failed with `error`.

    `is_retry`: an earlier attempt was cut off, and may have been what is in the way.
    """

    def __init__(self, index: int, error: CoordinationError, *, is_retry: bool) -> None:
        super().__init__(f"operation {index}: {type(error).__name__}: {error}")
        self.index = index
        self.error = error
        self.is_retry = is_retry


class FencedWriter:
    """Writes as long as this broker's mandate lasts."""

    def __init__(self, session: Session, mandate: Mandate) -> None:
        self._session = session
        self._fence = Check(znodes.CONTROLLER_EPOCH, mandate.epoch_version)

    async def write(self, ops: Sequence[Op]) -> None:
        """Do all of at most OPS_MAX `ops`, or none; wait for a connection if there is none.

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
        """Delete a node without children, unless somebody else has."""
        try:
            await self.write([Delete(path)])
        except OpRefused as refused:
            if not isinstance(refused.error, NoNode):
                raise
