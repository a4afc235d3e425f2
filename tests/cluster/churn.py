"""What goes on while brokers die: topics come, grow and go, and a producer writes."""

import itertools
import threading
import uuid
from collections import Counter, deque
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.schema import Message as Request
from tests.lab.asking import ask, codes_in
from tests.lab.cluster import DELIVERY_TIMEOUT_MS, REQUEST_TIMEOUT_MS
from tests.wire.clients import librdkafka

from .clusters import Cluster

TOPICS_KEPT: Final = 6
PAUSE_S: Final = 0.05
ANSWER_TIMEOUT_MS: Final = 500
# What a controller says that has just woken up.
NO_SESSION: Final = "the coordination store is out of reach"
# What may be said of a topic while brokers die.
PASSING: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.STALE_CONTROLLER_EPOCH,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,
    }
)
# What is written, and only not seen to be done in time.
WILL_BE_DONE: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT})
MAY_BE_THERE: Final = WILL_BE_DONE | {ErrorCode.TOPIC_ALREADY_EXISTS}


class Churn:
    """A thread that makes topics, adds partitions and deletes them; a context manager."""

    def __init__(self, cluster: Cluster) -> None:
        self.asked_to_delete: list[str] = []
        self.answers: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="churn")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        there: deque[str] = deque()
        for number in itertools.count():
            if self._stop.is_set():
                return
            name = f"churn-{number}"
            topic = CreatableTopic(name=name, num_partitions=2, replication_factor=2)
            create = CreateTopicsRequest(topics=[topic], timeout_ms=ANSWER_TIMEOUT_MS)
            if self._ask("create", create, 7) <= MAY_BE_THERE:
                there.append(name)
            if number % 2 and there:
                grown = CreatePartitionsTopic(name=there[0], count=4, assignments=None)
                grow = CreatePartitionsRequest(topics=[grown], timeout_ms=ANSWER_TIMEOUT_MS)
                self._ask("grow", grow, 3)
            if len(there) > TOPICS_KEPT:
                gone = DeleteTopicState(name=there[0])
                delete = DeleteTopicsRequest(topics=[gone], timeout_ms=ANSWER_TIMEOUT_MS)
                if self._ask("delete", delete, 6) <= WILL_BE_DONE:
                    self.asked_to_delete.append(there.popleft())
                else:
                    there.rotate(-1)
            self._stop.wait(PAUSE_S)

    def _ask(self, what: str, request: Request, version: int) -> set[ErrorCode]:
        """With what errors a controller has answered; NOT_CONTROLLER if nobody has."""
        try:
            controller = self._cluster.controller()
            if controller is None:
                return {ErrorCode.NOT_CONTROLLER}
            answer = ask(self._cluster.addresses[controller], request, version)
        except OSError as error:
            self.answers[f"{what} {type(error).__name__}"] += 1
            return {ErrorCode.NOT_CONTROLLER}
        codes = codes_in(answer)
        self.answers[f"{what} {codes[0][0].name if codes else 'done'}"] += 1
        self.unexpected += [
            f"{what}: {code.name} {text}"
            for code, text in codes
            if code not in PASSING and NO_SESSION not in text
        ]
        return {code for code, _ in codes}


class Writer:
    """An idempotent producer in a thread of its own, which knows what was acknowledged."""

    def __init__(self, servers: str, topic: str, partitions: int, pause_s: float = 0.01) -> None:
        self.acknowledged: list[list[bytes]] = [[] for _ in range(partitions)]
        self.failed: list[str] = []
        self._topic = topic
        self._pause_s = pause_s
        self._name = uuid.uuid4().hex[:8]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")
        settings: dict[str, str | float | bool] = {
            "acks": "all",
            "enable.idempotence": True,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
            "log_level": 0,
        }
        self._producer = Producer(librdkafka(servers, **settings))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        for number in itertools.count():
            partition = number % len(self.acknowledged)
            value = f"{self._name} {number}".encode()
            self._producer.produce(
                self._topic, value, partition=partition, on_delivery=self._delivered
            )
            self._producer.poll(0)
            if self._stop.wait(self._pause_s):
                break
        if left := self._producer.flush(60):
            self.failed.append(f"{left} records are still on their way")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        value, partition = message.value(), message.partition()
        assert value is not None
        assert partition is not None
        self.acknowledged[partition].append(value)


def read_all(servers: str, topic: str, partitions: int) -> list[list[bytes]]:
    """Every record of every partition, in order."""
    settings: dict[str, str | float | bool] = {"group.id": "reader", "log_level": 0}
    consumer = Consumer(librdkafka(servers, **settings))
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    try:
        wanted = [TopicPartition(topic, p, 0) for p in range(partitions)]
        ends = [consumer.get_watermark_offsets(p, timeout=30)[1] for p in wanted]
        consumer.assign(wanted)
        while missing := sum(ends) - sum(map(len, found)):
            messages = consumer.consume(min(missing, 500), timeout=20)
            assert messages, "nothing more is delivered"
            for message in messages:
                assert message.error() is None, message.error()
                found[message.partition() or 0].append(message.value() or b"")
    finally:
        consumer.close()
    return found


def misread(acknowledged: Sequence[bytes], found: Sequence[bytes]) -> list[str]:
    """What is lost, there twice, or out of order."""
    counts = Counter(found)
    wrong = [f"{value!r} is there {counts[value]} times" for value in acknowledged]
    wrong = [text for text, value in zip(wrong, acknowledged, strict=True) if counts[value] != 1]
    wanted = set(acknowledged)
    order = [value for value in found if value in wanted]
    return wrong or ([] if order == list(acknowledged) else ["out of order"])
