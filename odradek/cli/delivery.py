"""Records on their way to a topic, and what becomes of them."""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from odradek.broker.core.topic_names import is_topic_name

from .errors import CommandError
from .formats import Message, Writer
from .librdkafka import KafkaError, Producer, Reports, sentence, topics_of
from .progress import Advance
from .records import Outgoing
from .tables import count_of, discard_stdout

POLL_S: Final = 0.1
SETTLE_S: Final = 5.0
# Records that were acknowledged do not end a poll unless they are printed.
FULL_QUEUE_POLL_S: Final = 0.005


class Refused(CommandError):
    """The record that was to be sent is none; those before it are not concerned."""


class Delivery:
    """Sends records to one topic, and prints what `report` makes of each acknowledged one."""

    def __init__(self, topic: str, report: Writer | None) -> None:
        self.reports = Reports()
        self.report = report
        self._topic = topic
        self._producer: Producer = None
        self._partition_count = 0
        self._sent = 0
        self._failed = 0
        self._failure: str | None = None
        self._fatal: str | None = None
        self._given_up: str | None = None
        self._acknowledged: list[Message] = []

    def begin(self, producer: Producer) -> None:
        """Take the producer, which was made with `delivered` and `reports`."""
        self._producer = producer

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Take one answer.

        librdkafka calls it from within poll and flush, which an exception in here would break.
        """
        if error is not None:
            self._failed += 1
            if error.code() in (error._PURGE_QUEUE, error._PURGE_INFLIGHT):
                # It follows from another error, which may be delivered after it.
                self._given_up = self._given_up or sentence(error)
            else:
                self._failure = self._failure or self._sentence(error, message.partition())
        elif self.report is not None:
            self._acknowledged.append(message)

    def send(self, records: Iterable[Outgoing | None], advance: Advance) -> None:
        """Send records; where there is None instead, look at the answers.

        Raises: Refused and what `records` raises; CommandError if a record sent before failed.
        """
        from confluent_kafka import KafkaException

        topic, produce = self._topic, self._producer.produce
        told, size_bytes = 0, 0
        for record in records:
            if record is None:
                self._poll(0)
                advance(self._sent - told, size_bytes)
                told, size_bytes = self._sent, 0
                continue
            fields: dict[str, Any] = {"headers": record.headers} if record.headers else {}
            if record.partition is not None:
                fields["partition"] = record.partition
                if record.partition >= self._partition_count:
                    self._check_partition(record.partition)
            if record.timestamp_ms is not None:
                fields["timestamp"] = record.timestamp_ms
            while True:
                try:
                    produce(topic, record.value, record.key, **fields)
                    break
                except BufferError:
                    self._poll(FULL_QUEUE_POLL_S)
                except KafkaException as error:
                    self._poll(0)  # it may refuse all, because of a record before
                    said = self._sentence(error.args[0], fields.get("partition", -1))
                    raise Refused(said) from None
            self._sent += 1
            size_bytes += len(record.value or b"")

    def finish(self) -> None:
        """Return when all records are acknowledged.  Raises: CommandError."""
        while self._served(self._producer.flush, POLL_S):
            self._check()
        self._check()

    def _check_partition(self, partition: int) -> None:
        """Refuse a partition that the topic does not have; librdkafka would only tell later.

        Raises: Refused, CommandError.
        """
        found = topics_of(self._producer, self._topic).get(self._topic)
        if found is None or found.error is not None:  # it may be created yet, by writing to it
            return
        self._partition_count = len(found.partitions)
        if partition >= self._partition_count:
            raise Refused(self._no_partition(partition))

    def _poll(self, wait_s: float) -> None:
        self._served(self._producer.poll, wait_s)
        self._check()

    def _served(self, serve: Callable[[float], int], wait_s: float) -> int:
        """Let librdkafka deliver answers.  It raises what is fatal for the producer."""
        from confluent_kafka import KafkaException

        try:
            return serve(wait_s)
        except KafkaException as error:
            self._fatal = self._fatal or sentence(error.args[0])
            return 0

    def _settle(self) -> None:
        """Give up what was not sent yet, and wait for the answers to what was."""
        self._producer.purge(in_flight=False)
        deadline_s = time.monotonic() + SETTLE_S
        while self._served(self._producer.flush, POLL_S) and time.monotonic() < deadline_s:
            pass

    def _check(self) -> None:
        """Print what was acknowledged.  Raises: CommandError, if a record was not written."""
        if self.report is not None and self._acknowledged:
            self._print(b"".join(map(self.report, self._acknowledged)))
            self._acknowledged.clear()
        if not len(self._producer):
            self.reports.arrived()
        if not (self._failure or self._fatal or self._given_up):
            self.reports.check()
            return
        self._settle()
        reason = self._failure or self._fatal or self._given_up
        raise CommandError(f"{reason}: {self._account()}")

    def _account(self) -> str:
        """How many records are written for certain."""
        written = self._sent - len(self._producer) - self._failed
        return f"{count_of(self._sent, 'record')} sent, {written} of them written"

    def _print(self, lines: bytes) -> None:
        try:
            sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # the reader has seen enough; the records are still delivered
            self.report = None
            discard_stdout()
        except OSError as error:  # as of a full disk
            discard_stdout()
            self._failure = self._failure or f"the output can't be written: {error.strerror}"

    def _no_partition(self, partition: int) -> str:
        return f"{self._topic} has no partition {partition} (-p any places records by key)"

    def _sentence(self, error: KafkaError, partition: int) -> str:
        code = error.code()
        if code == error.TOPIC_EXCEPTION or not is_topic_name(self._topic):
            return f"{self._topic!r} is no name of a topic: letters, digits, '.', '_' and '-' are"
        if code in (error._UNKNOWN_TOPIC, error.UNKNOWN_TOPIC_OR_PART):
            return f"there is no topic {self._topic!r}"
        if code == error._UNKNOWN_PARTITION:
            return self._no_partition(partition)
        if code == error._MSG_TIMED_OUT:
            return "a record was not acknowledged in time (--timeout)"
        return sentence(error)
