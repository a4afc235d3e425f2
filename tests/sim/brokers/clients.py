"""Producers, consumers and admin clients of a simulated cluster, and what must be true for them.

Idempotent producers repeat a batch until it is acknowledged: it is stored once, at the offset that
they are told, and theirs are in order.  Others write once and are acknowledged or not.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from tests.sim.client import RECORDS_BYTES_MAX, ErrorAnswer, check
from tests.sim.process import HOST
from tests.sim.storage_client import KeyValue, StorageClient
from tests.sim.storage_world import KEYS, LATEST, Past
from tests.sim.workload import History
from tests.support.messages import batch_of

from .cluster import SimCluster

EVENTS: Final = "events"
TABLE: Final = "table"
VALUES_PER_BATCH_MAX: Final = 4
LONG_POLL_MS: Final = 3_000
PROBE_PAUSE_S: Final = 0.3
PROBE_MAX_S: Final = 2.0
PAUSES_S: Final = (0, 0.02, 0.2, 0.5)

AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""What a client answers by looking for the leader again.  Any other code is a fault."""


class Links:
    """The connections of one client, one a broker."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._clients: dict[int, StorageClient] = {}
        self._leaders: dict[tuple[str, int], int] = {}

    async def any(self) -> StorageClient:
        """A connection to any broker.  Raises: ConnectionError."""
        return await self._to(self._cluster.port)

    async def leader(self, topic: str, partition: int) -> StorageClient:
        """A connection to who leads a partition.  Raises: ErrorAnswer, ConnectionError."""
        key = topic, partition
        if key not in self._leaders:
            await self._ask(topic)
        return await self._to(self._cluster.ports[self._leaders[key]])

    async def _ask(self, topic: str) -> None:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        answer = await (await self.any()).ask(request, 12)
        ports = {broker.node_id: broker.port for broker in answer.brokers}
        assert ports.items() <= self._cluster.ports.items(), ports
        for found in answer.topics:
            check(found.error_code)
            for partition in found.partitions:
                check(partition.error_code)
                assert partition.leader_id in ports, partition
                self._leaders[topic, partition.partition_index] = partition.leader_id

    async def _to(self, port: int) -> StorageClient:
        client = self._clients.get(port)
        if client is None:
            client = self._clients[port] = await StorageClient.connect(port, HOST)
        return client

    async def close(self) -> None:
        """Hang up; the leaders are looked for anew."""
        self._leaders.clear()
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()


class Clients:
    """All clients of one cluster, until `is_over`."""

    def __init__(self, cluster: SimCluster, partitions: int) -> None:
        self.history = History(partitions)
        self.past = Past(TABLE, may_delete=False)
        self._cluster = cluster
        self._random = cluster.loop.random
        self._probes = 0

    # One client.

    async def _until_over(self, step: Callable[[Links], Awaitable[object]]) -> None:
        """Take steps; whatever breaks is tried again."""
        links = Links(self._cluster)
        while not self.history.is_over:
            await self._try(links, step)
        await links.close()

    async def _try(self, links: Links, step: Callable[[Links], Awaitable[object]]) -> bool:
        try:
            await step(links)
            return True
        except ErrorAnswer as error:
            assert error.args[0] in AGAIN, ErrorCode(error.args[0]).name
        except (ConnectionError, TimeoutError):
            pass
        await links.close()
        await asyncio.sleep(self._random.uniform(0.02, 0.1))
        return False

    async def _until_done(self, links: Links, step: Callable[[Links], Awaitable[object]]) -> None:
        while not await self._try(links, step):
            pass

    # Writing.

    async def write_once(self, name: str) -> None:
        """An idempotent producer."""
        links = Links(self._cluster)
        producer_id, producer_epoch = await self._init(links)
        sequences = dict.fromkeys(self.history.partitions, 0)
        number = 0
        while not self.history.is_over:
            partition = self._random.choice(self.history.partitions)
            count = self._random.randint(1, VALUES_PER_BATCH_MAX)
            values = [b"%s-%d" % (name.encode(), number + each) for each in range(count)]
            number += count
            batch = self._batch(
                *values,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=sequences[partition],
            )
            sequences[partition] += count
            self.history.sent[partition].update(values)

            async def send(
                links: Links,
                partition: int = partition,
                batch: bytearray = batch,
                values: Sequence[bytes] = values,
            ) -> None:
                self._acknowledged(partition, await self._produce(links, partition, batch), values)

            await self._until_done(links, send)
            await asyncio.sleep(self._random.choice(PAUSES_S))
        await links.close()

    async def _init(self, links: Links) -> tuple[int, int]:
        found: list[tuple[int, int]] = []

        async def ask(links: Links) -> None:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
            answer = await (await links.any()).ask(request, 4)
            check(answer.error_code)
            found.append((answer.producer_id, answer.producer_epoch))

        await self._until_done(links, ask)
        return found[0]

    def _acknowledged(self, partition: int, base_offset: int, values: Sequence[bytes]) -> None:
        known = self.history.acknowledged[partition]
        for offset, value in enumerate(values, base_offset):
            assert known.setdefault(offset, value) == value, (
                f"{offset}: {known[offset]!r} {value!r}"
            )

    def _batch(self, *values: bytes, **more: int) -> bytearray:
        return batch_of(*values, timestamp=self._cluster.clock.wall_ms(), **more)

    async def _produce(
        self, links: Links, partition: int, batch: bytearray, *, acks: int = -1
    ) -> int:
        """Return the base offset.  Raises: ErrorAnswer, ConnectionError."""
        client = await links.leader(EVENTS, partition)
        return await client.append_batch(EVENTS, partition, batch, acks=acks)

    async def write(self, name: str) -> None:
        """A producer that repeats nothing; what it sends with acks=1 may be lost."""
        number = 0

        async def step(links: Links) -> None:
            nonlocal number
            await asyncio.sleep(self._random.choice(PAUSES_S))
            number += 1
            value = b"%s-%d" % (name.encode(), number)
            partition = self._random.choice(self.history.partitions)
            acks = self._random.choice((-1, 1))
            self.history.sent[partition].add(value)
            batch = self._batch(value)
            base_offset = await self._produce(links, partition, batch, acks=acks)
            if acks == -1:
                self._acknowledged(partition, base_offset, [value])

        await self._until_over(step)

    async def update(self, name: str) -> None:
        """A producer to the compacted topic."""
        number = 0

        async def step(links: Links) -> None:
            nonlocal number
            await asyncio.sleep(self._random.choice(PAUSES_S))
            records: list[KeyValue] = []
            for _ in range(self._random.randint(1, 6)):
                number += 1
                value = b"%s-%d%s" % (name.encode(), number, b"." * self._random.choice((0, 40)))
                records.append((b"%d" % self._random.randrange(KEYS), value))
            self.past.sent.update(records)
            client = await links.leader(TABLE, 0)
            wall_ms = self._cluster.clock.wall_ms()
            base_offset = await client.append(TABLE, records, -1, wall_ms)
            for offset, record in enumerate(records, base_offset):
                assert self.past.acknowledged.setdefault(offset, record) == record

        await self._until_over(step)

    # Reading.

    async def follow(self, partition: int) -> None:
        """A consumer that waits for news with long polls."""
        offset = 0
        seen = self.history.seen[partition]

        async def step(links: Links) -> None:
            nonlocal offset
            for found, value in await self._fetch(links, partition, offset, LONG_POLL_MS):
                if found >= offset:
                    assert found == offset, f"{found} comes where {offset} was asked for"
                    assert seen.setdefault(found, value) == value, f"{found} has changed"
                    offset = found + 1
            if self._random.random() < 0.02:
                offset = self._random.randint(0, offset)

        await self._until_over(step)

    async def _fetch(
        self, links: Links, partition: int, offset: int, wait_ms: int
    ) -> list[tuple[int, bytes]]:
        client = await links.leader(EVENTS, partition)
        bound = self._random.choice((300, RECORDS_BYTES_MAX))
        return await client.fetch(
            EVENTS, partition, offset, wait_ms=wait_ms, partition_max_bytes=bound
        )

    async def follow_table(self) -> None:
        """A consumer of the compacted topic."""
        offset = 0

        async def step(links: Links) -> None:
            nonlocal offset
            client = await links.leader(TABLE, 0)
            kept, next_offset, _ = await client.read_from(TABLE, offset, wait_ms=500)
            self.past.see(kept)
            offset = next_offset if self._random.random() < 0.9 else 0

        await self._until_over(step)

    # In the end.

    async def check_logs(self) -> int:
        """Read everything and hold it against what is known; how many records there are."""
        links = Links(self._cluster)
        count = 0
        for partition in self.history.partitions:
            log: list[tuple[int, bytes]] = []

            async def read_on(links: Links, partition: int = partition, log: Any = log) -> None:
                while more := await self._fetch(links, partition, len(log), 0):
                    log += [(offset, value) for offset, value in more if offset >= len(log)]

            await self._until_done(links, read_on)  # leaders may still be rebalanced
            self.history.check(partition, log)
            check_order(log)
            count += len(log)
        await links.close()
        return count

    async def check_waiting(self) -> None:
        """A long poll is answered by the next record, not by its time-out."""
        links, others = Links(self._cluster), Links(self._cluster)
        for partition in self.history.partitions:
            while not await self._try(links, partial(self._wake_one, others, partition)):
                await others.close()
        await links.close()
        await others.close()

    async def _wake_one(self, others: Links, partition: int, links: Links) -> None:
        self._probes += 1
        value = b"probe-%d" % self._probes
        self.history.sent[partition].add(value)
        batch = self._batch(value)
        client = await links.leader(EVENTS, partition)
        end = await client.offset_at(EVENTS, LATEST, partition=partition)
        waiting = asyncio.ensure_future(self._fetch(links, partition, end, 20_000))
        try:
            await asyncio.sleep(PROBE_PAUSE_S)
            offset = await self._produce(others, partition, batch)
            await asyncio.wait([waiting], timeout=PROBE_MAX_S)
            assert waiting.done(), "nobody has woken the fetch"
            assert (offset, value) in await waiting
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


def check_order(log: Sequence[tuple[int, bytes]]) -> None:
    """The values of each producer are in the order in which it sent them."""
    latest: dict[bytes, int] = {}
    for _, value in log:
        name, _, number = value.partition(b"-")
        assert int(number) > latest.get(name, -1), f"{value!r} after {latest[name]}"
        latest[name] = int(number)
