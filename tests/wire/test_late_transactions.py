"""Requests of transactions that come late, twice or to the next transaction.

Whatever comes when, no transaction hangs, nothing that was committed is lost, and readers of
committed records see all of a transaction or nothing. With version 1 there is one exception, as in
Apache Kafka 3.9: a request that comes during the next transaction of the same epoch counts for that
one (KIP-890). With version 2 each transaction has its own epoch, and there is no exception.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from enum import Enum
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k26_end_txn import EndTxnResponse
from odradek.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from odradek.protocol.schema import Message
from tests.broker.transaction_requests import Identity, add_partitions, end, init_producer
from tests.lab.background import Background
from tests.seeds import Repeats, repeated
from tests.support.brokers import StartServer, create_topic
from tests.support.connections import HungUp, RawConnection
from tests.support.frames import answer_in
from tests.support.messages import batch_of, fetch_request, produce_request
from tests.support.waiting import until
from tests.wire.clients import Settings, librdkafka
from tests.wire.committed import read_committed
from tests.wire.late_proxy import LateProxy
from tests.wire.servers import Server, make_server
from tests.wire.transactional import Java, JavaFailed, JavaProducer

SETTINGS: Final = {
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
TOPIC: Final = "t"
PARTITIONS: Final = 2
RECORDS: Final = 3
"""In each partition, of each transaction."""
ID: Final = "x"
TIMEOUT_MS: Final = 3_000
PRODUCE, ADD_PARTITIONS, END_TXN = 0, 24, 26
TRANSACTIONS: Final = 1
ONE_IN: Final = 4
ABORTED_ONE_IN: Final = 5
COMMITTED_ONLY: Final = 1
DONE: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})
LATER: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
LIBRDKAFKA: Final[Settings] = {
    "transactional.id": ID,
    "transaction.timeout.ms": TIMEOUT_MS,
    "linger.ms": 0,
    "reconnect.backoff.ms": 1,
    "reconnect.backoff.max.ms": 20,
    "retry.backoff.ms": 10,
}
WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


class Outcome(Enum):
    """What a producer was told of its transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    FAILED = "failed"


WHOLE: Final = {
    Outcome.COMMITTED: {PARTITIONS * RECORDS},
    Outcome.ABORTED: {0},
    Outcome.FAILED: {0, PARTITIONS * RECORDS},
}
"""How many records readers may see."""


class Ended(NamedTuple):
    """One transaction, and when it was going on."""

    outcome: Outcome
    from_s: float
    to_s: float


class Refused(Exception):
    """The broker has refused a request: its name, and the error codes."""


def value_of(number: int, record: int) -> bytes:
    return b"%d.%d" % (number, record)


class RawProducer:
    """Sends each request again until it is answered, as clients do, and no two at once."""

    PRODUCE_VERSION, END_TXN_VERSION = 9, 3

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._connection: RawConnection | None = None
        self._producer: Identity | None = None
        self._sequences: Counter[int] = Counter()

    def transact(self, number: int, *, commits: bool) -> Outcome:
        """Write the records of a transaction and end it."""
        try:
            self.add()
            for record in range(RECORDS):
                for partition in range(PARTITIONS):
                    self.write(partition, value_of(number, record))
            self.end(commits=commits)
        except Refused:
            self._producer = None
            return Outcome.FAILED
        return Outcome.COMMITTED if commits else Outcome.ABORTED

    @property
    def producer(self) -> Identity:
        """Its id and epoch; where there is none, that of a new epoch."""
        if self._producer is None:
            find = FindCoordinatorRequest(coordinator_keys=[ID], key_type=TRANSACTIONS)
            self._ask(find, 4, lambda answer: [each.error_code for each in answer.coordinators])
            request = init_producer(ID, timeout_ms=TIMEOUT_MS)
            answer = self._ask(request, 4, lambda answer: [answer.error_code])
            self._producer = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        return self._producer

    def add(self) -> None:
        """Add all partitions.  Raises: Refused."""

        def codes(answer: Any) -> list[int]:
            topics = answer.results_by_topic_v3_and_below
            return [p.partition_error_code for t in topics for p in t.results_by_partition]

        self._ask(add_partitions(ID, self.producer, TOPIC, *range(PARTITIONS)), 3, codes)

    def write(self, partition: int, value: bytes) -> None:
        """Write one record.  Raises: Refused."""
        producer_id, epoch = self.producer
        batch = batch_of(
            value,
            timestamp=int(1_000 * time.time()),  # or retention would delete it
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences[partition],
            is_transactional=True,
        )
        request = produce_request(TOPIC, {partition: batch})
        request.transactional_id = ID

        def codes(answer: Any) -> list[int]:
            return [answer.responses[0].partition_responses[0].error_code]

        self._ask(request, self.PRODUCE_VERSION, codes)
        self._sequences[partition] += 1

    def end(self, *, commits: bool) -> EndTxnResponse:
        """End the transaction.  Raises: Refused."""
        request = end(ID, self.producer, commits=commits)
        answer = self._ask(request, self.END_TXN_VERSION, lambda answer: [answer.error_code])
        assert isinstance(answer, EndTxnResponse)
        return answer

    def close(self) -> None:
        """End its connection."""
        if self._connection is not None:
            self._connection.__exit__()
            self._connection = None

    def _ask(self, request: Message, version: int, codes: Callable[[Any], Sequence[int]]) -> Any:
        def answered() -> Any:
            try:
                if self._connection is None:
                    self._connection = RawConnection(*self._address)
                answer = self._connection.exchange(request, version)
            except (HungUp, OSError):
                self.close()
                return None
            return None if LATER.intersection(codes(answer)) else answer

        answer = until(answered, type(request).__name__)
        if not WRITTEN.issuperset(codes(answer)):
            raise Refused(type(request).__name__, codes(answer))
        return answer


class RawProducer2(RawProducer):
    """The same with version 2: Produce adds partitions, and EndTxn tells the next epoch."""

    PRODUCE_VERSION, END_TXN_VERSION = 12, 5

    def add(self) -> None:
        """Nothing is to be added."""

    def end(self, *, commits: bool) -> EndTxnResponse:
        """End the transaction.  Raises: Refused."""
        answer = super().end(commits=commits)
        self._producer = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
        return answer


class LibrdkafkaProducer:
    """The same as `RawProducer` with librdkafka."""

    def __init__(self, servers: str) -> None:
        self._settings = librdkafka(servers, **LIBRDKAFKA)
        self._producer: Producer | None = None

    def transact(self, number: int, *, commits: bool) -> Outcome:
        """Write the records of a transaction and end it."""
        producer = self._producer or self._opened()
        try:
            producer.begin_transaction()
            for record in range(RECORDS):
                for partition in range(PARTITIONS):
                    producer.produce(TOPIC, value_of(number, record), partition=partition)
            if commits:
                producer.commit_transaction(30)
                return Outcome.COMMITTED
            producer.flush(30)
            producer.abort_transaction(30)
        except KafkaException as failed:
            self._recover(producer, failed)
            return Outcome.FAILED
        return Outcome.ABORTED

    def _opened(self) -> Producer:
        self._producer = Producer(self._settings)
        self._producer.init_transactions(30)
        return self._producer

    def _recover(self, producer: Producer, failed: KafkaException) -> None:
        if failed.args[0].txn_requires_abort():
            with suppress(KafkaException):
                producer.abort_transaction(30)
                return
        producer.purge()
        self._producer = None


class LibrdkafkaClient:
    """The same in a process of its own, because librdkafka may abort the process.

    It does so if an answer finds its transaction in a state that librdkafka does not expect.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._pool: ProcessPoolExecutor | None = None

    def transact(self, number: int, *, commits: bool) -> Outcome:
        """Write the records of a transaction and end it."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                1, get_context("spawn"), make_producer, (self._servers,)
            )
        try:
            return self._pool.submit(transact, number, commits).result()
        except BrokenProcessPool:
            self._pool = None
            return Outcome.FAILED

    def close(self) -> None:
        """End its process."""
        if self._pool is not None:
            self._pool.shutdown()


def make_producer(servers: str) -> None:
    """Begin a process of a `LibrdkafkaClient`."""
    global in_this_process
    in_this_process = LibrdkafkaProducer(servers)


def transact(number: int, commits: bool) -> Outcome:
    """Transact in such a process."""
    assert in_this_process is not None
    return in_this_process.transact(number, commits=commits)


in_this_process: LibrdkafkaProducer | None = None


class JavaClient:
    """The same with Java's producer, which uses version 2 if the broker does."""

    def __init__(self, servers: str) -> None:
        self._java = Java("4.3.1", servers)
        self._servers = servers
        self._producer: JavaProducer | None = None

    def transact(self, number: int, *, commits: bool) -> Outcome:
        """Write the records of a transaction and end it."""
        try:
            if self._producer is None:
                self._producer = self._java.open(self._servers, ID, TIMEOUT_MS)
            self._producer.begin()
            for record in range(RECORDS):
                for partition in range(PARTITIONS):
                    self._producer.send(TOPIC, value_of(number, record).decode(), partition)
            if commits:
                self._producer.commit()
                return Outcome.COMMITTED
            self._producer.abort()
        except JavaFailed:
            if self._producer is not None:
                with suppress(JavaFailed):
                    self._producer.close()
            self._producer = None
            return Outcome.FAILED
        return Outcome.ABORTED

    def close(self) -> None:
        """End its process."""
        self._java.__exit__()


class StableOffsets(Background):
    """Asks for the last stable offsets all the time: they never go back."""

    def __init__(self, server: Server) -> None:
        super().__init__("stable offsets")
        self.looks = 0
        self.went_back: list[tuple[int, int, int]] = []
        self.lag: dict[int, int] = {}
        """High watermark less last stable offset, of each partition."""
        self.errors: Counter[int] = Counter()
        self._connection = RawConnection(server.host, server.port)

    def _run(self) -> None:
        last: Counter[int] = Counter()
        with self._connection:
            while not self._stop.wait(0.002):
                for partition in range(PARTITIONS):
                    data = self._look(partition)
                    if data.error_code:
                        self.errors[data.error_code] += 1
                        continue
                    if data.last_stable_offset < last[partition]:
                        self.went_back.append((partition, last[partition], data.last_stable_offset))
                    last[partition] = data.last_stable_offset
                    self.lag[partition] = data.high_watermark - data.last_stable_offset
                self.looks += 1

    def _look(self, partition: int) -> Any:
        request = fetch_request(
            TOPIC, partition=partition, isolation_level=COMMITTED_ONLY, partition_max_bytes=1
        )
        return self._connection.exchange(request, 12).responses[0].partitions[0]


def state_of(server: Server) -> str:
    """The state of the transactional id, according to its coordinator."""
    with RawConnection(server.host, server.port) as connection:
        answer = connection.exchange(DescribeTransactionsRequest(transactional_ids=[ID]), 0)
    state: str = answer.transaction_states[0].transaction_state
    return state


def transact_often(
    server: Server,
    proxy: LateProxy,
    producer: "Client",
    repeats: Repeats,
) -> dict[int, Ended]:
    """So many transactions, of which a share is aborted; all are ended at last."""
    chance = random.Random(repeats.seed)
    ended: dict[int, Ended] = {}
    with StableOffsets(server) as stable:
        for number in range(repeats.count):
            from_s = time.monotonic()
            outcome = producer.transact(number, commits=chance.randrange(ABORTED_ONE_IN) > 0)
            ended[number] = Ended(outcome, from_s, time.monotonic())
        proxy.settle()
        looks = stable.looks
        until(
            lambda: stable.looks > looks + 1 and not any(stable.lag.values()), lambda: vars(stable)
        )
        until(lambda: state_of(server) in DONE, lambda: state_of(server))
    assert not stable.errors
    assert stable.went_back == []
    return ended


def seen(servers: str) -> Counter[int]:
    """How many records of each transaction readers of committed records see, none of them twice."""
    values = Counter(
        (partition, value)
        for partition, records in enumerate(read_committed(servers, TOPIC, PARTITIONS))
        for _, value in records
    )
    assert set(values.values()) <= {1}
    return Counter(int(value.partition(b".")[0]) for _, value in values)


def assert_a_request_came_late(
    number: int, ended: Mapping[int, Ended], proxy: LateProxy, *, adds_all: bool
) -> None:
    """Only that may tear a transaction.

    A late EndTxn ends the transaction that it comes to; one that has failed is open until the next
    one begins. A late Produce writes records that the producer has given up into its next
    transaction.
    `adds_all`: the producer adds all partitions at once. Then its next Produce fails after a late
    EndTxn, unless a late AddPartitionsToTxn has come, too.
    """
    torn = ended[number]
    until_s = ended.get(number + 1, torn).to_s
    came = {
        delivery.api_key
        for delivery in proxy.deliveries
        if delivery.to_s > torn.from_s and delivery.from_s < until_s
    }
    assert came & {END_TXN, PRODUCE}, (number, torn)
    if adds_all and torn.outcome is Outcome.COMMITTED:
        assert came >= {END_TXN, ADD_PARTITIONS}, (number, torn)


Client = RawProducer | LibrdkafkaClient | JavaClient
CLIENTS: Final[dict[str, Callable[[LateProxy], Client]]] = {
    "raw": lambda proxy: RawProducer((proxy.host, proxy.port)),
    "librdkafka": lambda proxy: LibrdkafkaClient(proxy.bootstrap_servers),
    "raw, version 2": lambda proxy: RawProducer2((proxy.host, proxy.port)),
    "java-4.3.1, version 2": lambda proxy: JavaClient(proxy.bootstrap_servers),
}
LIBRDKAFKA_CLIENT: Final = pytest.param("librdkafka", marks=pytest.mark.soak)
JAVA: Final = pytest.param("java-4.3.1, version 2", marks=[pytest.mark.java, pytest.mark.soak])


@pytest.mark.parametrize("client", ["raw", LIBRDKAFKA_CLIENT, "raw, version 2", JAVA])
@repeated(in_test=40, in_soak=2_000, each_s=2)
def test_nothing_is_lost_that_was_committed(
    start_server: StartServer, client: str, repeats: Repeats
) -> None:
    keys = PRODUCE, ADD_PARTITIONS, END_TXN
    version = "2" if client.endswith("version 2") else "0"
    with LateProxy(seed=repeats.seed, one_in=ONE_IN, api_keys=keys) as proxy:
        listener = f"PLAINTEXT://{proxy.bootstrap_servers}"
        settings = {"advertised.listeners": listener, "odradek.transaction.version": version}
        server = start_server({**SETTINGS, **settings})
        proxy.upstream = server.host, server.port
        create_topic(proxy.bootstrap_servers, TOPIC, partitions=PARTITIONS)
        producer = CLIENTS[client](proxy)
        ended = transact_often(server, proxy, producer, repeats)
        producer.close()
        found = seen(proxy.bootstrap_servers)
    assert len(proxy.deliveries) > repeats.count // 2
    outcomes = Counter(each.outcome for each in ended.values())
    assert outcomes[Outcome.COMMITTED] > repeats.count // 5, outcomes
    torn = {number for number, each in ended.items() if found[number] not in WHOLE[each.outcome]}
    if version == "2":
        assert not torn
    for number in torn:
        assert_a_request_came_late(number, ended, proxy, adds_all=client == "raw")


@pytest.mark.parametrize(
    "target",
    ["odradek", pytest.param("kafka-3.9", marks=[pytest.mark.java, pytest.mark.soak])],
)
def test_an_end_that_comes_late_ends_the_next_transaction(target: str, tmp_path: Path) -> None:
    server = make_server(target, tmp_path / "server", SETTINGS)
    try:
        server.start()
        create_topic(server.bootstrap_servers, TOPIC, partitions=PARTITIONS)
        with LateProxy() as proxy, closing(RawProducer((proxy.host, proxy.port))) as producer:
            proxy.upstream = server.host, server.port
            proxy.hold(END_TXN)
            assert producer.transact(0, commits=True) is Outcome.COMMITTED
            producer.add()
            for partition in range(PARTITIONS):
                producer.write(partition, value_of(1, 0))
            late = answer_in(proxy.deliver(), EndTxnResponse, 3)
            assert late.error_code == 0
            until(lambda: seen(server.bootstrap_servers)[1] == PARTITIONS)
            with pytest.raises(Refused, match=str(ErrorCode.INVALID_TXN_STATE.value)):
                producer.write(0, value_of(1, 1))
        assert seen(server.bootstrap_servers) == {0: PARTITIONS * RECORDS, 1: PARTITIONS}
    finally:
        server.close()
