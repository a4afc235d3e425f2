"""Writers and readers that live through crashes, and what must be true of what they saw."""

import asyncio
from collections.abc import Awaitable, Callable

from .broker import SimBroker
from .client import Client, ErrorAnswer
from .loop import SimLoop
from .process import HOST

TOPIC = "events"
RETRY_S = 0.02
VALUES_PER_BATCH_MAX = 4
LONG_POLL_MS = 500

Log = list[tuple[int, bytes]]
"""Offsets and values, in order."""


class History:
    """What clients saw of each partition."""

    def __init__(self, partitions: int) -> None:
        self.partitions = range(partitions)
        self.sent: list[set[bytes]] = [set() for _ in self.partitions]
        self.acknowledged: list[dict[int, bytes]] = [{} for _ in self.partitions]
        self.seen: list[dict[int, bytes]] = [{} for _ in self.partitions]
        self.is_over = False

    def check(self, partition: int, log: Log) -> None:
        """Hold a partition's whole log against what clients were told of it before."""
        stored = dict(log)
        assert [offset for offset, _ in log] == list(range(len(log))), "offsets without gaps"
        for name, known in (
            ("acknowledged", self.acknowledged[partition]),
            ("seen by a reader", self.seen[partition]),
        ):
            lost = {offset: value for offset, value in known.items() if stored.get(offset) != value}
            assert not lost, f"{name} in partition {partition}, then lost or changed: {lost}"
        values = list(stored.values())
        assert len(set(values)) == len(values), "each value was sent once and is stored once"
        assert set(values) <= self.sent[partition], "what nobody sent"


class Workload:
    """Clients of one broker, each on its own connections."""

    def __init__(self, loop: SimLoop, broker: SimBroker, history: History) -> None:
        self._loop = loop
        self._broker = broker
        self._history = history

    async def write(self, name: str, partition: int) -> None:
        """Append batches of values that nobody else sends, until the history is over."""
        number = 0

        async def session(client: Client) -> None:
            nonlocal number
            while not self._history.is_over:
                count = self._loop.random.randint(1, VALUES_PER_BATCH_MAX)
                values = [b"%s-%d" % (name.encode(), number + each) for each in range(count)]
                number += count
                self._history.sent[partition].update(values)
                base_offset = await client.produce(TOPIC, partition, values, acks=-1)
                for place, value in enumerate(values):
                    assert base_offset + place not in self._history.acknowledged[partition]
                    self._history.acknowledged[partition][base_offset + place] = value

        await self._with_sessions(session)

    async def follow(self, partition: int) -> None:
        """Read on from where it was, by long polls, until the history is over."""
        offset = 0

        async def session(client: Client) -> None:
            nonlocal offset
            while not self._history.is_over:
                for found, value in await client.fetch(
                    TOPIC, partition, offset, wait_ms=LONG_POLL_MS
                ):
                    if found >= offset:
                        self._history.seen[partition][found] = value
                        offset = found + 1

        await self._with_sessions(session)

    async def _with_sessions(self, session: Callable[[Client], Awaitable[None]]) -> None:
        while not self._history.is_over:
            try:
                client = await Client.connect(self._broker.port, HOST)
            except ConnectionError:
                await asyncio.sleep(RETRY_S)
                continue
            try:
                await session(client)
            except (ConnectionError, ErrorAnswer):
                await asyncio.sleep(RETRY_S)
            finally:
                await client.close()


async def read_all(port: int, partition: int) -> Log:
    """A partition's records from the first to the last."""
    client = await Client.connect(port, HOST)
    try:
        log: Log = []
        while more := await client.fetch(TOPIC, partition, len(log)):
            log += [(offset, value) for offset, value in more if offset >= len(log)]
        return log
    finally:
        await client.close()
