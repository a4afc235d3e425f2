"""Clients of a simulated cluster: they write with acks=all or 1, and read on where they were.

Every other batch belongs to a transaction of one of three producers.  One who has one in a
partition may end it there, whoever has led when it began.
"""

# mypy: disable-error-code="func-returns-value, return, return-value, misc"

from typing import TYPE_CHECKING, Any, Final, cast

from odradek.broker.core.fetch_reads import read_one
from odradek.broker.core.fetch_session import PartitionFetch
from odradek.broker.core.partition import Partition
from odradek.broker.handlers.delayed_produce import Appended, DelayedProduce
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k00_produce import PartitionProduceResponse
from odradek.protocol.records import Marker, MarkerType, Record, build_batch, read_header
from odradek.storage.errors import StorageError

from .promises import Id, Promises
from .store import ClusterStore
from .world import NOTHING, World

if TYPE_CHECKING:
    from .broker import SimBroker

READ_BYTES_MAX: Final = 2000


class Waiting:
    """As `DelayedProduce`, for one partition."""

    acks_all = True

    def __init__(self, clients: "Clients", offset_end: int) -> None:
        self._clients = clients
        self._offset_end = offset_end

    def lose(self, appended: Appended) -> None:
        """It is not led here any more."""
        appended.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def settled(self, appended: Appended) -> None:
        """The client hears what became of it."""
        if not appended.result.error_code:
            self._clients.acknowledged(appended.partition, self._offset_end)


class Clients:
    """All producers and consumers."""

    def __init__(
        self,
        world: World,
        store: ClusterStore,
        brokers: "dict[int, SimBroker]",
        promises: Promises,
    ) -> None:
        self.acknowledged_count = 0
        self.read_bytes = 0
        self._values = 0
        self._world = world
        self._store = store
        self._brokers = brokers
        self._promises = promises
        self._positions: dict[Id, tuple[int, int]] = {}
        """How far was read, and in which leader epoch."""

    # Writing.

    def write(self, broker: "SimBroker") -> object:
        """Append to any partition that is led by a broker."""
        led = [p for _, p in sorted(broker.replicas.partitions.items()) if p.is_leader]
        if not led:
            return NOTHING
        partition = self._world.random.choice(led)
        acks_all = self._world.random.random() < 0.8
        self._values += 1
        batch = memoryview(self._batch())
        header = read_header(batch)
        wall_ms, producer_id = self._world.wall_ms(), header.producer_id
        entry = partition.log.producers.entry(producer_id)
        has_begun = entry is not None and entry.transaction_first_offset >= 0
        try:
            partition.check_leader()
            if acks_all:
                partition.check_enough_replicas()
            if has_begun and self._values % 4 == 0:
                marker = Marker(MarkerType(self._values // 4 % 2), coordinator_epoch=0)
                partition.append_marker(
                    marker, producer_id=producer_id, producer_epoch=0, wall_ms=wall_ms
                )
            else:
                partition.append(batch, header, wall_ms=wall_ms)
        except Refused:
            return None
        except StorageError as error:
            broker.replicas.note_failure(error)
            return None
        if acks_all:
            self._promise(partition, partition.log.log_end_offset)
        return None

    def _batch(self) -> bytearray:
        count = self._world.random.choice((1, 1, 1, 3))
        now_ms = self._world.wall_ms()
        value = b"%d" % self._values
        records = [Record(index, now_ms, None, value) for index in range(count)]
        if self._values % 2:
            return build_batch(records)
        return build_batch(
            records,
            producer_id=self._values % 3,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )

    def _promise(self, partition: Partition, offset_end: int) -> None:
        """As the Produce handler answers."""
        if partition.log.high_watermark >= offset_end:
            self.acknowledged(partition, offset_end)
            return
        appended = Appended(partition, offset_end, PartitionProduceResponse(), is_idempotent=False)
        if appended.may_be_answered(acks_all=True):
            self.acknowledged(partition, offset_end)
        else:
            appended.begin(cast(DelayedProduce[Any], Waiting(self, offset_end)))

    def acknowledged(self, partition: Partition, offset_end: int) -> None:
        """A client hears that all is well."""
        self.acknowledged_count += 1
        self._promises.committed(partition)
        state = partition.state
        wanted = int(self._store.overrides[state.topic]["min.insync.replicas"])
        self._promises.acknowledged(partition, offset_end, min(wanted, len(state.replicas)))

    # Reading.

    def read(self, informant: "SimBroker") -> object:
        """Read on in any partition that a broker tells of, from whom it names as its leader."""
        known: list[Any] = [
            state
            for _, topic in sorted(informant.metadata.topics.items())
            for state in topic.partitions
            if state.leader in self._brokers
        ]
        if not known:
            return NOTHING
        state = self._world.random.choice(known)
        its = state.topic_id, state.partition
        offset, epoch = self._positions.get(its, (0, 0))
        leader = self._brokers[state.leader]
        if not leader.is_reachable or state.leader_epoch < epoch:
            return NOTHING
        try:
            return self._read(leader, state, offset)
        except StorageError as error:  # the connection is closed
            return leader.replicas.note_failure(error)

    def _read(self, leader: "SimBroker", state: Any, offset: int) -> object:
        its = state.topic_id, state.partition
        fetch = PartitionFetch(its, offset, READ_BYTES_MAX, state.leader_epoch)
        read = read_one(fetch, leader.leading.find, READ_BYTES_MAX, at_least_one=True)
        if read.span is not None:
            data, next_offset = read.span.read(), read.span.next_offset
            read.span.release()
            self.read_bytes += len(data)
            self._promises.was_read(state, offset, data)
            self._positions[its] = next_offset, state.leader_epoch
        elif read.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            assert read.partition is not None
            self._promises.may_shrink(state, offset)
            self._positions[its] = read.partition.log.high_watermark, state.leader_epoch
        elif read.error:
            return NOTHING
        return None
