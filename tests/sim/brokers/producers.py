"""Transactional producers of a simulated cluster, and what readers of committed records must see.

A producer repeats a request until it is answered. If it is fenced, or its transaction aborted, it
begins anew. What it was told of a transaction is what all partitions show; of one whose end it was
not told they show all or nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k01_fetch import AbortedTransaction
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.records import MarkerType, iter_batches, iter_records, read_marker
from tests.broker.transaction_requests import (
    NOBODY,
    Identity,
    add_partitions,
    end,
    init_producer,
)
from tests.sim.client import RECORDS_BYTES_MAX, ErrorAnswer, check
from tests.sim.storage_client import StorageClient
from tests.support.messages import batch_of, fetch_request, produce_request

from . import clients
from .clients import EVENTS, Links
from .cluster import SimCluster

T = TypeVar("T")

READ_COMMITTED: Final = 1
AGAIN: Final = clients.AGAIN | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
ANEW: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""After these a producer begins anew.  Any other code is a fault."""


class BeginAnew(Exception):
    """The producer is fenced, or its transaction is aborted."""


@dataclass(eq=False)
class Transaction:
    """What a producer has written in one transaction, and how that ended."""

    values: dict[int, list[bytes]] = field(default_factory=dict)
    """By partition; those that are acknowledged."""
    is_commit_asked: bool = False
    is_committed: bool | None = None
    """What the producer was told."""


class TransactionalProducer:
    """One producer of a transactional id."""

    def __init__(
        self,
        cluster: SimCluster,
        transactional_id: str,
        name: str,
        *,
        timeout_ms: int,
        version: int = 0,
    ) -> None:
        """`version`: of transactions that it speaks; 2 needs brokers that have it."""
        self.transactions: list[Transaction] = []
        self.is_over = False
        self.happened: Counter[str] = Counter()
        self._cluster = cluster
        self._random = cluster.loop.random
        self._id = transactional_id
        self._name = name
        self._timeout_ms = timeout_ms
        self._is_version_2 = version == 2
        self._links = Links(cluster)
        self._coordinator: int | None = None
        self._identity: Identity = NOBODY
        self._sequences: Counter[int] = Counter()
        self._count = 0

    async def live(self, partitions: Sequence[int], *, pause_s: float) -> None:
        """Transactions, one after the other, until it is over."""
        claimed = NOBODY
        while not self.is_over:
            try:
                await self.start(claimed)
                while not self.is_over:
                    await asyncio.sleep(self._random.uniform(0, pause_s))
                    await self.begin(self._random.sample(partitions, 2))
                    await self.finish(commits=self._random.random() < 0.7)
            except BeginAnew:
                claimed = self._random.choice((NOBODY, self._identity))
                await asyncio.sleep(self._random.uniform(0, 4 * pause_s))
        await self.close()

    async def start(self, claimed: Identity = NOBODY) -> None:
        """Become the producer of the id.  Raises: BeginAnew."""
        self._identity = await self._init(claimed)
        self._sequences.clear()

    async def begin(self, partitions: Iterable[int]) -> None:
        """Write to some partitions in a transaction.  Raises: BeginAnew."""
        self.transactions.append(Transaction())
        for partition in partitions:
            await self._add(partition)
            for _ in range(self._random.randint(1, 2)):
                self._count += 1
                value = b"%s-%d" % (self._name.encode(), self._count)
                await self._write(partition, value)
                self.transactions[-1].values.setdefault(partition, []).append(value)

    async def finish(self, *, commits: bool) -> None:
        """End the transaction.  Raises: BeginAnew."""
        transaction = self.transactions[-1]
        transaction.is_commit_asked = commits
        await self._end(commits=commits)
        transaction.is_committed = commits
        self.happened["committed" if commits else "aborted"] += 1

    async def close(self) -> None:
        """Hang up."""
        await self._links.close()

    # Requests, which are repeated.

    async def _until_done(self, step: Callable[[], Awaitable[T]]) -> T:
        """Raises: BeginAnew."""
        while True:
            try:
                return await step()
            except ErrorAnswer as error:
                code = ErrorCode(error.args[0])
                self.happened[code.name] += 1
                if code in ANEW:
                    raise BeginAnew from None
                assert code in AGAIN, code.name
            except (ConnectionError, TimeoutError):
                self.happened["no answer"] += 1
            self._coordinator = None
            await self._links.close()
            await asyncio.sleep(self._random.uniform(0.02, 0.1))

    async def _of_coordinator(self) -> StorageClient:
        if self._coordinator is None:
            request = FindCoordinatorRequest(coordinator_keys=[self._id], key_type=1)
            answer = await (await self._links.any()).ask(request, 4)
            (found,) = answer.coordinators
            check(found.error_code)
            self._coordinator = found.port
        return await self._links._to(self._coordinator)

    async def _init(self, claimed: Identity) -> Identity:
        async def step() -> Identity:
            request = init_producer(self._id, claimed, timeout_ms=self._timeout_ms)
            answer = await (await self._of_coordinator()).ask(request, 5)
            check(answer.error_code)
            return answer.producer_id, answer.producer_epoch

        return await self._until_done(step)

    async def _add(self, partition: int) -> None:
        if self._is_version_2:  # Produce adds it
            return

        async def step() -> None:
            request = add_partitions(self._id, self._identity, EVENTS, partition)
            answer = await (await self._of_coordinator()).ask(request, 3)
            check(
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            )

        await self._until_done(step)

    async def _write(self, partition: int, value: bytes) -> None:
        batch = batch_of(
            value,
            timestamp=self._cluster.clock.wall_ms(),
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=self._sequences[partition],
            is_transactional=True,
        )

        async def step() -> None:
            client = await self._links.leader(EVENTS, partition)
            request = produce_request(EVENTS, {partition: batch})
            request.transactional_id = self._id
            answer = await client.ask(request, 12 if self._is_version_2 else 11)
            check(answer.responses[0].partition_responses[0].error_code)

        await self._until_done(step)
        self._sequences[partition] += 1

    async def _end(self, *, commits: bool) -> None:
        async def step() -> None:
            request = end(self._id, self._identity, commits=commits)
            version = 5 if self._is_version_2 else 4
            answer = await (await self._of_coordinator()).ask(request, version)
            check(answer.error_code)
            if self._is_version_2:
                self._identity = answer.producer_id, answer.producer_epoch
                self._sequences.clear()

        await self._until_done(step)


# Readers.


async def read_committed(cluster: SimCluster, partition: int) -> list[bytes]:
    """All values that a reader of committed records sees in a partition."""
    links = Links(cluster)
    values: list[bytes] = []
    offset = 0
    while True:
        client = await links.leader(EVENTS, partition)
        request = fetch_request(EVENTS, offset, partition=partition, isolation_level=READ_COMMITTED)
        (found,) = (await client.ask(request, 12)).responses[0].partitions
        check(found.error_code)
        if not found.records:
            break
        seen, offset = _committed_in(memoryview(found.records), found.aborted_transactions or ())
        values += seen
    await links.close()
    return values


def _committed_in(
    data: memoryview, aborted: Iterable[AbortedTransaction]
) -> tuple[list[bytes], int]:
    """The values of a Fetch without those that were aborted, and the offset after it."""
    coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    aborting: set[int] = set()
    values: list[bytes] = []
    offset = 0
    for position, header in iter_batches(data):
        offset = header.next_offset
        while coming and coming[-1].first_offset <= header.base_offset:
            aborting.add(coming.pop().producer_id)
        batch = data[position : position + header.size_bytes]
        records = iter_records(batch, header, size_bytes_max=RECORDS_BYTES_MAX)
        if header.is_control:
            if any(read_marker(record).type == MarkerType.ABORT for record in records):
                aborting.discard(header.producer_id)
        elif header.producer_id not in aborting:
            values += [bytes(record.value or b"") for record in records]
    return values, offset


def check_transactions(
    producers: Iterable[TransactionalProducer], seen: dict[int, list[bytes]]
) -> None:
    """`seen` are the committed values of each partition."""
    counts = {partition: Counter(values) for partition, values in seen.items()}
    for transaction in (each for producer in producers for each in producer.transactions):
        shown = {
            counts[partition].pop(value, 0)
            for partition, values in transaction.values.items()
            for value in values
        }
        if not transaction.is_commit_asked:
            assert shown <= {0}, f"nobody has committed {transaction}"
        elif transaction.is_committed is not None:
            assert shown == {int(transaction.is_committed)}, transaction
        else:
            assert shown in ({0}, {1}), f"a part is committed of {transaction}"
    assert not any(counts.values()), f"not acknowledged, but committed: {counts}"


def unsettled(cluster: SimCluster) -> str | None:
    """A transaction that is still open, or whose end is not carried out."""
    for broker_id in cluster.brokers:
        node: Any = cluster.node(broker_id)
        if node.transactions.is_loading:
            return f"broker {broker_id} loads transactions"
        for partition in node.replicas.partitions.values():
            log = partition.log
            if partition.is_leader and log.last_stable_offset < log.log_end_offset:
                return f"{log!r} ends at {log.log_end_offset}, stable to {log.last_stable_offset}"
        for shard in node.transactions.shards():
            for transaction in shard._transactions.values():
                if transaction.pending is not None or transaction.known.is_ongoing:
                    return f"{transaction.known} becomes {transaction.pending}"
    return None
