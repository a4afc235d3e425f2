"""A TCP proxy that delivers requests of chosen APIs late, twice, or when nobody waits for them.

A request that comes *late* comes on another connection, after its client has lost its own: as one
that lay in a buffer of the network, or of a broker that did not run. What is chosen is said by a
seed, or by `hold`.
"""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Awaitable, Collection
from enum import Enum
from types import TracebackType
from typing import Final, NamedTuple, Self

from tests.support.connections import RawConnection
from tests.support.frames import SIZE, size_bytes_in
from tests.support.tcp_server import HOST, TcpServer
from tests.support.waiting import until

LATER_S: Final = (0.0, 0.1)


class Trouble(Enum):
    """What may happen to a request."""

    DELAYED = "it waits, and with it what follows on its connection"
    DOUBLED = "it comes again, on another connection"
    LATE = "its connection ends, and it comes on another one"


class Delivery(NamedTuple):
    """A request that the broker got when its client did not wait for it."""

    api_key: int
    from_s: float
    to_s: float


class LateProxy:
    """Forwards frames to one broker; one in `one_in` requests of `api_keys` has trouble.

    A client that follows metadata comes through it if the broker's `advertised.listeners` names it.
    """

    def __init__(self, *, seed: int = 0, one_in: int = 0, api_keys: Collection[int] = ()) -> None:
        self.upstream: tuple[str, int] | None = None
        self.deliveries: list[Delivery] = []
        self.held: bytes | None = None
        self.host, self.port = HOST, 0
        self._chance = random.Random(seed)
        self._one_in = one_in
        self._api_keys = frozenset(api_keys)
        self._hold_key: int | None = None
        self._later: set[asyncio.Task[None]] = set()
        self._is_ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="late-proxy", daemon=True)

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_ready.wait(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    # By hand.

    def hold(self, api_key: int) -> None:
        """Keep the next request of this API, and end its connection."""
        self._hold_key = api_key

    def deliver(self) -> bytes:
        """Send what is held, on a connection of its own; return the answer's frame."""
        assert self.held is not None
        assert self.upstream is not None
        with RawConnection(*self.upstream) as connection:
            connection.send(self.held)
            return connection.read_frame()

    # By chance.

    def settle(self) -> None:
        """Wait until all that is late has come."""
        until(lambda: not self._later)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        async with TcpServer(self._connected) as server:
            self.port = server.port
            self._is_ready.set()
            await self._stop.wait()
        for task in self._later:
            task.cancel()
        await asyncio.gather(*self._later, return_exceptions=True)

    async def _connected(
        self, client: asyncio.StreamReader, answers_to: asyncio.StreamWriter
    ) -> None:
        """Forward requests and answers until one side ends, or the connection is to end."""
        assert self.upstream is not None, "set .upstream first"
        answers, broker = await asyncio.open_connection(*self.upstream)
        both = [
            asyncio.create_task(_until_it_ends(self._forward_requests(client, broker))),
            asyncio.create_task(_until_it_ends(_forward(answers, answers_to))),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for writer in (broker, answers_to):
                writer.transport.abort()
            for task in both:
                task.cancel()
            await asyncio.wait(both)

    async def _forward_requests(
        self, client: asyncio.StreamReader, broker: asyncio.StreamWriter
    ) -> None:
        while True:
            size = await client.readexactly(SIZE.size)
            data = size + await client.readexactly(size_bytes_in(size))
            api_key = int.from_bytes(data[SIZE.size : SIZE.size + 2], "big")
            if api_key == self._hold_key:
                self._hold_key, self.held = None, data
                return
            trouble = self._choose(api_key)
            if trouble is Trouble.DELAYED:
                await asyncio.sleep(self._chance.uniform(*LATER_S))
            if trouble in (Trouble.DOUBLED, Trouble.LATE):
                task = asyncio.create_task(_until_it_ends(self._deliver_later(api_key, data)))
                self._later.add(task)
                task.add_done_callback(self._later.discard)
            if trouble is Trouble.LATE:
                return
            broker.write(data)
            await broker.drain()

    def _choose(self, api_key: int) -> Trouble | None:
        if api_key not in self._api_keys or self._chance.randrange(self._one_in):
            return None
        return self._chance.choice(list(Trouble))

    async def _deliver_later(self, api_key: int, data: bytes) -> None:
        await asyncio.sleep(self._chance.uniform(*LATER_S))
        assert self.upstream is not None
        from_s = time.monotonic()
        answer, broker = await asyncio.open_connection(*self.upstream)
        try:
            broker.write(data)
            await answer.readexactly(size_bytes_in(await answer.readexactly(SIZE.size)))
        finally:
            broker.close()
            self.deliveries.append(Delivery(api_key, from_s, time.monotonic()))


async def _forward(answers: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
    while data := await answers.read(1 << 16):
        client.write(data)
        await client.drain()


async def _until_it_ends(work: Awaitable[None]) -> None:
    """Let a side that ends be no error."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        await work
