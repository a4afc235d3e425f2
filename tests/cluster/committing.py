"""Producers that commit one transaction after the other, and what coordinators know of them."""

import threading
from collections import Counter
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from odradek.broker.core.partitioner import partition_of
from odradek.broker.core.topic_names import TRANSACTION_STATE_TOPIC
from odradek.broker.core.transactions.states import PREPARED, TransactionState
from odradek.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from odradek.protocol.transaction_records import TransactionLogValue, decode_record
from tests.lab.background import Background
from tests.support.waiting import until
from tests.support.watermarks import watermarks
from tests.wire.clients import Settings, librdkafka
from tests.wire.committed import read_committed

from .clusters import Cluster

TIMEOUT_S: Final = 60.0
ABORTED_OF: Final = 4
"""Of so many transactions one is aborted."""
PRODUCER: Final[Settings] = {"reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}


class Outcome(Enum):
    """How a transaction has ended, as far as its producer was told."""

    COMMITTED = auto()
    ABORTED = auto()
    UNKNOWN = auto()


class Committer(Background):
    """Writes "NAME NUMBER" to all partitions in each transaction.

    While it is to pause it rests between two transactions, or `in_transaction`.
    """

    def __init__(
        self, servers: str, topic: str, partitions: int, name: str, *, in_transaction: bool
    ) -> None:
        super().__init__(name)
        self.name = name
        self.outcomes: list[Outcome] = []
        self.reasons: list[str] = []
        self.is_to_pause = threading.Event()
        self.is_resting = threading.Event()
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._in_transaction = in_transaction
        self._producer = self._open()

    def _open(self) -> Producer:
        settings: Settings = {"transactional.id": self.name, **PRODUCER}
        producer = Producer(librdkafka(self._servers, **settings))
        producer.init_transactions(TIMEOUT_S)
        return producer

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self._in_transaction:
                self._rest()
            self.outcomes.append(self._transaction(len(self.outcomes)))

    def _rest(self) -> None:
        while self.is_to_pause.is_set() and not self._stop.is_set():
            self.is_resting.set()
            self._stop.wait(0.01)
        self.is_resting.clear()

    def _transaction(self, number: int) -> Outcome:
        try:
            self._producer.begin_transaction()
            for partition in range(self._partitions):
                self._producer.produce(self._topic, f"{self.name} {number}", partition=partition)
            if self._in_transaction:
                self._producer.flush(TIMEOUT_S)
                self._rest()
            if number % ABORTED_OF == ABORTED_OF - 1:
                self._producer.abort_transaction(TIMEOUT_S)
                return Outcome.ABORTED
            self._producer.commit_transaction(TIMEOUT_S)
        except KafkaException as failed:
            self.reasons.append(str(failed))
            return self._after(failed)
        return Outcome.COMMITTED

    def _after(self, failed: KafkaException) -> Outcome:
        if not failed.args[0].fatal():
            try:
                self._producer.abort_transaction(TIMEOUT_S)
            except KafkaException as fatal:
                self.reasons.append(str(fatal))
            else:
                return Outcome.ABORTED
        self._producer.purge()
        self._producer = self._open()
        return Outcome.UNKNOWN


class Known(NamedTuple):
    """What a coordinator tells of a transactional id, or its record."""

    state: TransactionState
    producer: tuple[int, int]
    timeout_ms: int
    start_ms: int
    partitions: frozenset[tuple[str, int]]


def known_from(value: TransactionLogValue) -> Known:
    """What a record says."""
    return Known(
        TransactionState(value.transaction_status),
        (value.producer_id, value.producer_epoch),
        value.transaction_timeout_ms,
        value.transaction_start_timestamp_ms,
        frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
    )


class StateLog:
    """`__transaction_state`, read as far as it goes; a context manager."""

    def __init__(self, servers: str, partitions: int) -> None:
        settings: Settings = {"group.id": "log", "enable.partition.eof": True}
        self._consumer = Consumer(librdkafka(servers, **settings))
        self._partitions = [
            TopicPartition(TRANSACTION_STATE_TOPIC, p, 0) for p in range(partitions)
        ]
        self._consumer.assign(self._partitions)
        self._epochs: dict[str, int] = {}
        self.states: dict[str, Known] = {}
        self.taken_over = 0
        """Commits and aborts that one coordinator has decided and another one completed."""

    def read(self) -> None:
        """Up to the end of now."""
        ends = {p.partition: watermarks(self._consumer, p)[1] for p in self._partitions}

        def is_read() -> bool:
            for message in self._consumer.consume(1_000, timeout=0.05):
                if message.error() is None:
                    self._take(message.key(), message.value(), message.leader_epoch())
            at = self._consumer.position(self._partitions)
            return all(max(p.offset, 0) >= ends[p.partition] for p in at)

        until(is_read)

    def _take(self, key: bytes, value: bytes | None, epoch: int) -> None:
        record = decode_record(key, value)
        assert record is not None
        assert record.value is not None
        name, before = record.transactional_id, self.states.get(record.transactional_id)
        self.states[name] = known_from(record.value)
        if before is not None and before.state in PREPARED and self._epochs[name] != epoch:
            self.taken_over += 1
        self._epochs[name] = epoch

    def close(self) -> None:
        self._consumer.close()


def told(cluster: Cluster, transactional_id: str, partitions: int) -> Known | None:
    """What its coordinator tells; None: there is none now."""
    leader = cluster.leader(TRANSACTION_STATE_TOPIC, partition_of(transactional_id, partitions))
    if leader < 0:
        return None
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    (state,) = cluster.ask(request, 0, broker=leader).transaction_states
    found = next(s for s in TransactionState if s.kafka_name == state.transaction_state)
    # As in Kafka, a coordinator remembers the start of the last one; its record does not have it.
    start_ms = -1 if found is TransactionState.EMPTY else state.transaction_start_time_ms
    return Known(
        found,
        (state.producer_id, state.producer_epoch),
        state.transaction_timeout_ms,
        start_ms,
        frozenset((topic.topic, p) for topic in state.topics for p in topic.partitions),
    )


def committed_in(servers: str, topic: str, partitions: int) -> list[list[tuple[str, int]]]:
    """Name and number of each committed record of each partition, in order."""
    found = read_committed(servers, topic, partitions)
    words = [[value.decode().split(" ") for _, value in part] for part in found]
    return [[(name, int(number)) for name, number in part] for part in words]


def misread(committer: Committer, found: Sequence[Sequence[tuple[str, int]]]) -> list[str]:
    """What is not there once and in order in each partition though it was committed, or is though
    it was aborted, or is there in some partitions only."""
    own = [[number for name, number in part if name == committer.name] for part in found]
    wrong = [f"{committer.name}: out of order" for part in own if part != sorted(part)]
    counts = [Counter(part) for part in own]
    for number, outcome in enumerate(committer.outcomes):
        times = {count[number] for count in counts}
        expected = {
            Outcome.COMMITTED: ({1},),
            Outcome.ABORTED: ({0},),
            Outcome.UNKNOWN: ({0}, {1}),
        }
        if times not in expected[outcome]:
            wrong.append(f"{committer.name} {number}: {outcome.name}, found {times}")
    return wrong
