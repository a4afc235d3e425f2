"""One member of a group in a process of its own, so that a test can end it by any signal.

`python -m tests.wire.group_member SPEC` with a `Spec` as JSON.  It subscribes when the first line
comes on stdin (a test starts it early and lets it go when its time has come), reads and commits
until SIGTERM, then leaves as its client does.  What it sees it prints as JSON lines:

    ready                                                           waits for stdin
    owns       generation, partitions ["topic:0", ...]              after each assignment
    gives_up   partitions                                           revoked or lost
    read       generation, partition, first, last                   handed to the application
    committed  generation, offsets {"topic:0": 17}                  answered by the broker
    refused    reason                                               a commit that was not taken
    left                                                            the end, after a clean leave
"""

import asyncio
import faulthandler
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

POLL_MS: Final = 50
# kafka-python 3.0 loses an assignment that arrives between two polls, if it joined again because
# topics had changed: one poll has to outlast a rebalance.  It returns when there are records.
KAFKA_PYTHON_POLL_MS: Final = 2_000
STRATEGIES: Final = {"cooperative-sticky": [CooperativeStickyAssignor]}


@dataclass(frozen=True, slots=True)
class Spec:
    """What a member is; the names of `settings` are Kafka's."""

    client: str
    servers: str
    group_id: str
    topics: list[str] = field(default_factory=list)
    pattern: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def commits(self) -> bool:
        """Whether the member commits by itself, after each poll."""
        return self.settings.get("enable.auto.commit") is False

    def in_python(self) -> dict[str, Any]:
        """The settings as kafka-python and aiokafka call them."""
        named = {name.replace(".", "_"): value for name, value in self.settings.items()}
        strategy = named.get("partition_assignment_strategy")
        if strategy in STRATEGIES:
            named["partition_assignment_strategy"] = STRATEGIES[strategy]
        return {
            "bootstrap_servers": self.servers,
            "group_id": self.group_id,
            "auto_offset_reset": "earliest",
            **named,
        }


class Reporter:
    """Prints events; knows the generation of the last assignment and what is not committed."""

    def __init__(self) -> None:
        self.generation = -1
        self.owned: set[str] = set()
        self.read_to: dict[str, int] = {}
        self._lock = threading.Lock()

    def say(self, event: str, **details: object) -> None:
        with self._lock:
            print(json.dumps({"event": event, **details}), flush=True)

    def assigned(self, partitions: Iterable[str], generation: int = -1) -> None:
        self.generation = generation
        self.owned |= set(partitions)
        self.say("owns", generation=generation, partitions=sorted(self.owned))

    def revoked(self, partitions: Iterable[str]) -> None:
        gone = sorted(partitions)
        self.owned -= set(gone)
        for partition in gone:
            self.read_to.pop(partition, None)
        if gone:
            self.say("gives_up", partitions=gone)

    def read(self, partition: str, first: int, last: int) -> None:
        self.read_to[partition] = last + 1
        self.say("read", generation=self.generation, partition=partition, first=first, last=last)

    def committed(self, offsets: Mapping[str, int]) -> None:
        for partition, offset in offsets.items():
            if self.read_to.get(partition) == offset:
                del self.read_to[partition]
        self.say("committed", generation=self.generation, offsets=dict(offsets))


def run_kafka_python(spec: Spec, report: Reporter, ended: Callable[[], bool]) -> None:
    consumer = kafka.KafkaConsumer(**spec.in_python())

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            report.revoked(_name(tp.topic, tp.partition) for tp in revoked)

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            # kafka-python 3.0 keeps an OffsetFetch that a poll did not wait for, and answers with
            # it in a later generation, in which others have committed since.
            consumer._coordinator._offset_fetch_futures.clear()
            names = [_name(tp.topic, tp.partition) for tp in assigned]
            report.assigned(names, consumer.group_metadata().generation_id)

    consumer.subscribe(spec.topics, pattern=spec.pattern or None, listener=Listener())
    while not ended():
        try:
            polled = consumer.poll(timeout_ms=KAFKA_PYTHON_POLL_MS)
        except kafka.errors.RetriableError:
            continue  # the broker is away or just back; the client waits between two attempts
        for tp, records in polled.items():
            report.read(_name(tp.topic, tp.partition), records[0].offset, records[-1].offset)
        if spec.commits and report.read_to:
            offsets = dict(report.read_to)
            try:
                consumer.commit(
                    {
                        kafka.TopicPartition(*parts(name)): kafka.OffsetAndMetadata(offset, "", -1)
                        for name, offset in offsets.items()
                    }
                )
                report.committed(offsets)
            except kafka.errors.KafkaError as error:
                report.say("refused", reason=repr(error))
                report.read_to.clear()
    consumer.close()


async def run_aiokafka(spec: Spec, report: Reporter, ended: Callable[[], bool]) -> None:
    consumer = aiokafka.AIOKafkaConsumer(**spec.in_python())

    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            report.revoked(_name(tp.topic, tp.partition) for tp in revoked)

        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            report.assigned(_name(tp.topic, tp.partition) for tp in assigned)

    consumer.subscribe(spec.topics, pattern=spec.pattern or None, listener=Listener())
    await consumer.start()
    while not ended():
        for tp, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
            report.read(_name(tp.topic, tp.partition), records[0].offset, records[-1].offset)
        if spec.commits and report.read_to:
            offsets = dict(report.read_to)
            try:
                await consumer.commit(
                    {
                        aiokafka.TopicPartition(*parts(name)): offset
                        for name, offset in offsets.items()
                    }
                )
                report.committed(offsets)
            except aiokafka.errors.KafkaError as error:
                report.say("refused", reason=repr(error))
                report.read_to.clear()
    await consumer.stop()


def run_confluent(spec: Spec, report: Reporter, ended: Callable[[], bool]) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": spec.servers,
            "log_level": 0,
            "group.id": spec.group_id,
            "auto.offset.reset": "earliest",
            **spec.settings,
        }
    )
    topics = [*spec.topics, *([spec.pattern] if spec.pattern else [])]
    consumer.subscribe(
        topics,
        on_assign=lambda _, found: report.assigned(_name(tp.topic, tp.partition) for tp in found),
        on_revoke=lambda _, found: report.revoked(_name(tp.topic, tp.partition) for tp in found),
    )
    while not ended():
        spans: dict[str, list[int]] = {}
        for message in consumer.consume(500, timeout=POLL_MS / 1000):
            if message.error() is None:
                name = _name(message.topic(), message.partition())
                spans.setdefault(name, []).append(message.offset())
        for name, offsets in spans.items():
            report.read(name, offsets[0], offsets[-1])
        if spec.commits and report.read_to:
            try:
                commit_confluent(consumer, report)
            except confluent_kafka.KafkaException as error:
                report.say("refused", reason=error.args[0].name())
                report.read_to.clear()
    consumer.close()


def commit_confluent(consumer: Any, report: Reporter) -> None:
    wanted = [
        confluent_kafka.TopicPartition(*parts(name), offset)
        for name, offset in report.read_to.items()
    ]
    done = consumer.commit(offsets=wanted, asynchronous=False)
    report.committed({_name(tp.topic, tp.partition): tp.offset for tp in done if not tp.error})
    failed = [tp.error for tp in done if tp.error]
    if failed:
        raise confluent_kafka.KafkaException(failed[0])


def main(text: str) -> None:
    """Be a member until SIGTERM."""
    spec, report, terminated = Spec(**json.loads(text)), Reporter(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: terminated.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.register(signal.SIGUSR1)  # a test that fails asks where everybody is
    report.say("ready")
    sys.stdin.readline()
    if spec.client == "kafka-python":
        run_kafka_python(spec, report, terminated.is_set)
    elif spec.client == "aiokafka":
        asyncio.run(run_aiokafka(spec, report, terminated.is_set))
    else:
        run_confluent(spec, report, terminated.is_set)
    report.say("left")


def _name(topic: str | None, partition: int | None) -> str:
    return f"{topic}:{partition}"


def parts(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition(":")
    return topic, int(partition)


if __name__ == "__main__":
    main(sys.argv[1])
