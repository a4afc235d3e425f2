"""Producer ids for idempotent producers, allocated by the controller in blocks.

The next block is requested when nine tenths of a block are used, so that no producer has to wait.
An id is never used twice, not even after a restart: the rest of a block is then lost.

Source: Kafka's RPCProducerIdManager. Kafka refuses a request at once while there is no block; this
class waits for the controller for a moment.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused, error_code
from odradek.protocol.primitives import INT64_MAX
from odradek.protocol.schema import Message

from ..peers.peer import PeerFailed

logger = logging.getLogger(__name__)

PREFETCH_AT: Final = 0.9
WAIT_S: Final = 1.0
RETRY_PAUSE_S: Final = 0.05


class ProducerIds:
    """The ids of this broker's current block, and the next block."""

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        """`allocate` requests a block from the controller; `allocator` creates such a function.

        It is called again if it raises Refused.
        """
        self._allocate = allocate
        self._block = range(0)
        self._next = range(0)
        self._prefetch_at = 0
        self._allocating: asyncio.Task[None] | None = None

    async def next_id(self) -> int:
        """An id that was never used before.

        Raises: Refused (COORDINATOR_LOAD_IN_PROGRESS while the controller gives none).
        """
        if not self._block and not self._next:
            await self._wait()
        return self._take()

    def ready_id(self) -> int | None:
        """An id that was never used before, if one is at hand; else ask for some."""
        if not self._block and not self._next:
            self._fetch()
            return None
        return self._take()

    def _take(self) -> int:
        if not self._block:
            self._block, self._next = self._next, range(0)
            self._prefetch_at = self._block.start + int(len(self._block) * PREFETCH_AT)
        producer_id, self._block = self._block[0], self._block[1:]
        if producer_id >= self._prefetch_at and not self._next:
            self._fetch()
        return producer_id

    def close(self) -> None:
        """Stop requesting blocks."""
        if self._allocating is not None:
            self._allocating.cancel()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                while not self._block and not self._next:
                    await asyncio.shield(self._fetch())
        except (TimeoutError, PeerFailed):
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from None

    def _fetch(self) -> "asyncio.Task[None]":
        """Start fetching the next block, with one task for all that wait."""
        if self._allocating is None:
            self._allocating = asyncio.get_running_loop().create_task(self._fetch_next())
            self._allocating.add_done_callback(self._fetched)
        return self._allocating

    def _fetched(self, task: "asyncio.Task[None]") -> None:
        self._allocating = None
        if not task.cancelled():
            task.exception()  # the waiters have the exception; the next request retries

    async def _fetch_next(self) -> None:
        trouble = ""
        while True:
            try:
                self._next = await self._allocate()
            except Refused as refused:
                if str(refused) != trouble:
                    trouble = str(refused)
                    logger.warning("no producer ids, trying again reason=%s", trouble)
                await asyncio.sleep(RETRY_PAUSE_S)
            else:
                return


def allocator(
    ask: Callable[[Message, int], Awaitable[Message]],
    version: int,
    *,
    broker_id: int,
    broker_epoch: Callable[[], int],
) -> Callable[[], Awaitable[range]]:
    """A function that requests blocks from the controller; `ask` is ControllerClient's."""

    async def allocate() -> range:
        from odradek.protocol.messages.k67_allocate_producer_ids import (  # not needed to start
            AllocateProducerIdsRequest,
            AllocateProducerIdsResponse,
        )

        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch())
        answer = await ask(request, version)
        assert isinstance(answer, AllocateProducerIdsResponse)
        if answer.error_code:
            raise Refused(error_code(answer.error_code))
        first, count = answer.producer_id_start, answer.producer_id_len
        if first < 0 or count <= 0 or first > INT64_MAX - count:
            raise Refused(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller gave {count} ids from {first}"
            )
        return range(first, first + count)

    return allocate
