"""A coordinator's shard with its log, the partitions of transactions, and what can go wrong.

The shard is the real one. Its log, the leaders of the partitions and the way to them are
simulated: appends are refused, or committed late; leadership is lost with all of the log above
the high watermark, or some of it; markers are refused, their answers are lost, come late or
twice; old coordinators send on; clocks jump.

A marker that arrives after the one that was sent in its place has been answered is left out: while
producers keep their epochs nobody can tell it from the marker of the next transaction, as in Kafka
before KIP-890's second part.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from odradek.broker.core.effects import AppendRecords, Effect, Producer
from odradek.broker.core.partition_state import TopicPartition
from odradek.broker.core.transactions.markers import SendMarkers
from odradek.broker.core.transactions.requests import AddPartitions, EndTransaction, InitProducer
from odradek.broker.core.transactions.shard import TransactionShard
from odradek.broker.core.transactions.states import PREPARED, TransactionState
from odradek.broker.core.transactions.transaction import EPOCH_LAST, Snapshot, identity_after
from odradek.protocol.errors import ErrorCode
from odradek.protocol.primitives import INT16_MAX
from tests.broker.core.transactions.running import TIMEOUT_MS, Running, Waiting

from .history import History, Instance, Written, producer_of

PARTITIONS: Final = tuple(("t", number) for number in range(3))
DAY_MS: Final = 86_400_000
ABORT_CHECK_MS: Final = 10_000
EXPIRE_CHECK_MS: Final = 3_600_000
EXPIRES_MS: Final = 7 * DAY_MS
TIMES_MS: Final = (10, 10, 100, 100, 100, 1_000, 1_000, 1_000, 20_000, TIMEOUT_MS)
VERSION_2: Final = 2
VERSION_2_EACH: Final = 4
"""One seed of so many has version 2 of transactions."""
WORN, WORN_ID = "a", 500
REFUSALS: Final = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)


@dataclass(eq=False)
class Item:
    """What a producer wrote in a transaction."""

    instance: Instance
    partition: TopicPartition
    ended: bool | None = None
    """Whether it was committed, once its partition has a marker."""
    acknowledged: bool | None = None
    """What the producer was told of it."""


class Marker(NamedTuple):
    """A marker on its way to a partition."""

    sent: SendMarkers
    partition: TopicPartition
    coordinator_epoch: int
    sender: TransactionShard
    instance: Instance


class DataPartition:
    """A partition of transactions: what is open in it, and the epochs it has seen."""

    def __init__(self, key: TopicPartition) -> None:
        self.key = key
        self.open: dict[int, list[Item]] = {}
        self._epochs: dict[int, tuple[int, int]] = {}
        """Of the producer and of its coordinator, by producer id."""

    def append(self, producer: Producer, item: Item) -> bool:
        """A batch of a transaction; False: the producer is fenced."""
        epoch, coordinator_epoch = self._epochs.get(producer.producer_id, (-1, -1))
        if producer.producer_epoch < epoch:
            return False
        self._epochs[producer.producer_id] = producer.producer_epoch, coordinator_epoch
        self.open.setdefault(producer.producer_id, []).append(item)
        return True

    def write(self, marker: Marker) -> ErrorCode:
        """A marker; what it ends must be of its transaction, which must be decided so."""
        producer_id, producer_epoch = marker.sent.producer
        epoch, coordinator_epoch = self._epochs.get(producer_id, (-1, -1))
        is_late = marker.sent.client_version == VERSION_2 and producer_id in self.open
        if producer_epoch < epoch + (is_late and epoch < INT16_MAX):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self._epochs[producer_id] = producer_epoch, marker.coordinator_epoch
        instance, commits = marker.instance, marker.sent.commits
        assert instance.decision is commits, f"{marker} where {instance.decision} is decided"
        assert instance.producer == marker.sent.producer, f"{marker} instead of {instance.producer}"
        for item in self.open.pop(producer_id, ()):
            assert item.instance is instance, f"{marker} ends another transaction"
            item.ended = commits
        instance.kinds.setdefault(self.key, set()).add(commits)
        return ErrorCode.NONE


class World(Running):
    """All of it, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.history = History()
        self.coordinator_epoch = 0
        self.has_jumped = False
        """Whether the wall clock did."""
        self.is_calm = False
        """Whether nothing goes wrong any more."""
        self.rings = False
        self.appended_ms: list[int] = []
        """When each record was appended, on the monotonic clock."""
        self.noted = 0
        """How many records the history has."""
        self.partitions = {key: DataPartition(key) for key in PARTITIONS}
        self.items: list[Item] = []
        self.markers: list[Marker] = []
        self.late: list[Marker] = []
        """Answers to markers that come once more."""
        self.handed: dict[str, list[tuple[Producer, Producer | None]]] = {}
        """The producers of each id, and who claimed to be their predecessor."""
        self.version = VERSION_2 if seed % VERSION_2_EACH == VERSION_2_EACH - 1 else 0
        super().__init__(
            version=self.version,
            abort_check_interval_ms=ABORT_CHECK_MS,
            id_expiration_ms=EXPIRES_MS,
            expiration_check_interval_ms=EXPIRE_CHECK_MS,
        )
        self.holds = True
        if self.version == VERSION_2 and self.random.random() < 0.5:
            self._wear(WORN)

    def client_version(self) -> int:
        """Of a new client: with version 2, one of them in four speaks an older one."""
        if self.version == 0 or self.random.random() < 0.25:
            return 0
        return self.version

    def _wear(self, key: str) -> None:
        """Let an id be there whose epochs are soon exhausted."""
        worn = Snapshot(WORN_ID, EPOCH_LAST - 3, TIMEOUT_MS, update_ms=self.wall_ms)
        record = worn.record(key, 1)
        self.log, self.committed, self.noted, self.appended_ms = [record], 1, 1, [0]
        self.shard.load(record)
        self.shard.loaded(self.moment)
        self.history.last[key] = worn
        self.history.updated[key] = Written(0, 0)

    def happens(self, chance: float) -> bool:
        return not self.is_calm and self.random.random() < chance

    # The log.

    def _append(self, key: str, effect: AppendRecords) -> None:
        self.refuse = self.random.choice(REFUSALS) if self.happens(0.08) else ErrorCode.NONE
        (record,) = effect.records
        state = None if record.value is None else record.value.transaction_status
        if state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
            self.check_marked(key)
        if self.rings:
            self.check_due(key, state)
        self.appended_ms[len(self.log) :] = [self.now_ms]
        super()._append(key, effect)

    def _then(
        self, key: str, then: Callable[[ErrorCode], Sequence[Effect]], code: ErrorCode
    ) -> None:
        self.pass_records()
        super()._then(key, then, code)

    def pass_records(self) -> None:
        """Note what the high watermark has passed."""
        for offset in range(self.noted, self.committed):
            when = Written(self.appended_ms[offset], self.coordinator_epoch)
            self.history.take(self.log[offset], when)
        self.noted = self.committed

    def commit_some(self) -> None:
        """The high watermark passes some appends; the in-sync set may have shrunk meanwhile."""
        for _ in range(self.random.randint(1, 3)):
            if self.appends:
                shrunk = self.happens(0.05)
                self.commit_next(
                    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if shrunk else ErrorCode.NONE
                )

    def lose_leadership(self) -> None:
        """Another coordinator takes over; with what is committed, and perhaps with more."""
        self.lose(kept=self.random.randint(self.committed, len(self.log)), told=self.happens(0.5))
        self.pass_records()
        self.coordinator_epoch += 1

    # Markers.

    def run(self, key: str, effects: Sequence[Effect]) -> None:
        super().run(key, effects)
        sent, self.sent = self.sent, []
        for markers in sent:
            instance = self.history.instances[markers.transactional_id]
            self.markers += [
                Marker(markers, partition, self.coordinator_epoch, self.shard, instance)
                for partition in sorted(markers.partitions)
            ]

    def deliver(self) -> None:
        """Some marker gets to its partition, or does not, or the answer to it is lost."""
        if self.late and self.happens(0.3):
            self.hear_late()
        if not self.markers or self.happens(0.1):
            return
        marker = self.markers.pop(self.random.randrange(len(self.markers)))
        partition = self.partitions.get(marker.partition)
        code = ErrorCode.NONE if partition is None else partition.write(marker)
        if code:
            assert marker.sender is not self.shard, f"{marker}: {code.name}"
        elif self.happens(0.15):
            self.markers.append(marker)
        else:
            self.hear(marker)
            if self.happens(0.3):
                self.late.append(marker)

    def hear(self, marker: Marker) -> None:
        """The coordinator hears that a marker is written, if it is still the one that sent it."""
        if marker.sender is self.shard:
            self.mark(marker.partition, markers=marker.sent)

    def hear_late(self) -> None:
        self.hear(self.late.pop(self.random.randrange(len(self.late))))

    def delete(self) -> None:
        """A partition's topic is deleted, with what is open in it."""
        if len(self.partitions) == len(PARTITIONS):
            del self.partitions[self.random.choice(PARTITIONS)]

    # Time.

    def pass_some_time(self) -> None:
        ms = self.random.choice(TIMES_MS)
        wall_ms = ms
        if self.happens(0.05):
            ms = wall_ms = EXPIRES_MS + EXPIRE_CHECK_MS
        elif self.happens(0.2):
            self.has_jumped = True
            wall_ms = self.random.choice((-3, 8, 30)) * DAY_MS
        self.pass_time(ms, wall_ms=wall_ms)

    def ring(self) -> None:
        self.rings = True
        super().ring()
        self.rings = False

    # What must hold.

    def check_marked(self, key: str) -> None:
        """A transaction is about to be complete: its partitions have their markers."""
        instance = self.history.instances[key]
        for partition in instance.partitions & self.partitions.keys():
            kinds = instance.kinds.get(partition)
            assert kinds == {instance.decision}, f"{partition} has {kinds}: {instance}"

    def check_due(self, key: str, state: int | None) -> None:
        """Nothing is ended early, whatever the wall clock says."""
        if state is None:
            since, least_ms = self.history.updated[key], EXPIRES_MS
        elif state == TransactionState.PREPARE_ABORT:
            since, least_ms = self.history.instances[key].begun, TIMEOUT_MS
        else:
            return
        if since.coordinator_epoch == self.coordinator_epoch or not self.has_jumped:
            after_ms = self.now_ms - since.now_ms
            assert after_ms >= least_ms, f"{self.history.last[key]} ended after {after_ms} ms"

    def check(self) -> None:
        """The shard knows what the committed log says, and waits for what is not committed."""
        waiting = {append.key for append in self.appends}
        for key in (*self.shard.ids, *self.history.last):
            transaction = self.shard._transactions.get(key)
            said = self.history.last.get(key)
            if said is None:
                assert key in waiting, key
                continue
            assert transaction is not None, f"{key} is forgotten"
            known = transaction.known
            start_ms = -1 if known.state is TransactionState.EMPTY else known.start_ms
            recorded = known._replace(last_producer_id=-1, last_producer_epoch=-1)
            said = said._replace(last_producer_id=-1)
            assert recorded._replace(start_ms=start_ms) == said
            is_pending = key in waiting or said.state in PREPARED
            assert (transaction.pending is not None) is is_pending, (known, transaction.pending)

    def answer(self, reply: object, response: Any) -> None:
        """What is promised is committed."""
        super().answer(reply, response)
        assert isinstance(reply, Waiting)
        request = reply.request
        if reply.code:
            return
        key = request.transactional_id
        said = self.history.last.get(key)
        assert said is not None, request
        if isinstance(request, InitProducer):
            assert said.state is TransactionState.EMPTY, said
            assert producer_of(said) == reply.producer, said
            self._hand(key, reply.producer, request.claimed)
            return
        if isinstance(request, EndTransaction) and request.client_version == VERSION_2:
            assert identity_after(said) == reply.producer, f"{request}: {said}"
            self._hand(key, reply.producer, request.producer)
        else:
            assert producer_of(said) == request.producer, f"{request}: {said}"
        if isinstance(request, AddPartitions):
            assert said.state is TransactionState.ONGOING, said
            assert said.partitions.issuperset(request.partitions), said
        elif request.commits:
            assert said.state.name in ("PREPARE_COMMIT", "COMPLETE_COMMIT"), said
        else:
            assert said.state.name in ("PREPARE_ABORT", "COMPLETE_ABORT"), said

    def _hand(self, key: str, producer: Producer, claimed: Producer | None) -> None:
        """Somebody who claims to be the producer before gets an id and an epoch."""
        handed = self.handed.setdefault(key, [])
        if handed and producer <= handed[-1][0]:
            assert claimed is not None
            assert handed[-1] == (producer, claimed), "two have one epoch"
        handed.append((producer, claimed))

    # The end.

    def settle(self) -> None:
        """Nothing goes wrong any more: every transaction comes to its end."""
        self.is_calm = True
        for ms in (100, 3 * TIMEOUT_MS, 100):
            self.pass_time(ms)
            while self.appends or self.markers or self.late:
                self.commit()
                while self.markers:
                    self.deliver()
                while self.late:
                    self.hear_late()
            self.check()
        assert not {s.state for s in self.history.last.values()} & {*PREPARED, Ongoing}
        for instance in self.history.all:
            assert instance.decision is not None
            for kinds in instance.kinds.values():
                assert kinds == {instance.decision}
        for item in self.items:
            if item.partition in self.partitions:
                assert item.ended is item.instance.decision, item
            assert item.acknowledged in (None, item.instance.decision), item
        for _ in range(3):
            self.pass_time(20 * DAY_MS)
            self.commit()
        self.check()
        assert not self.history.last


Ongoing: Final = TransactionState.ONGOING
