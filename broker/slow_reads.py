"""Reads of small files whose file system may never answer: certificates, tokens, keys of tokens;
and of answers for which a thread has to wait.

A thread that waits for such a file system cannot be ended. So there is one at most of each kind,
whoever reads waits for a limited time, and a broker that stops does not wait for it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar, TypeVarTuple

from .runtime import Offload, Runtime

TIMEOUT_S: Final = 10.0

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SlowReads:
    """Lets a thread read files, one at a time."""

    def __init__(self, runtime: Runtime, timeout_s: float | None = None) -> None:
        """`timeout_s`: how long a caller waits, `TIMEOUT_S` by default."""
        self._timeout_s = timeout_s
        self._offload: Offload = runtime.unending_offload or runtime.offload
        self._reading: asyncio.Future[Any] | None = None

    async def __call__(self, read: Callable[[*Ts], T], *given: *Ts) -> T:
        """Return what `read` returns, once earlier reads have ended.

        Raises: TimeoutError, and what `read` raises.
        """
        async with asyncio.timeout(self._timeout_s or TIMEOUT_S):
            while self._reading is not None and not self._reading.done():
                await asyncio.wait((self._reading,))
            reading = asyncio.ensure_future(self._offload(read, *given))
            self._reading = reading
            reading.add_done_callback(_take_exception)
            return await asyncio.shield(reading)


def _take_exception(reading: "asyncio.Future[Any]") -> None:
    """Whoever waited may have given up."""
    if not reading.cancelled():
        reading.exception()
