"""The loop of `consume`: what is read, what of it is written, and when it ends."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from odradek.pipeline.stop_signals import Stop

from .errors import CommandError
from .formats import Message, Writer
from .librdkafka import Consumer, Reports, offsets_at, sentence, topics_of
from .positions import LATEST, Offsets, Partition
from .progress import Advance

POLL_S: Final = 0.5
MESSAGES_PER_POLL: Final = 5000
# After so long without a record it is looked whether the rest can still come.
QUIET_S: Final = 2.0

Filter = Callable[[Message], bool]


@dataclass(slots=True)
class Goal:
    """When to stop: after `count` records, below the `stops` of the partitions, at `deadline_s`."""

    count: int | None = None
    stops: dict[Partition, int] | None = None
    deadline_s: float | None = None
    written: int = 0
    # Partitions that are read and have not come to their stop.
    open_partitions: set[Partition] = field(default_factory=set)
    # False while a group's partitions are dealt anew.
    assigned: bool = False

    @property
    def reached(self) -> bool:
        """Whether all requested records are written."""
        if self.count is not None and self.written >= self.count:
            return True
        return self.stops is not None and self.assigned and not self.open_partitions

    @property
    def endless(self) -> bool:
        """Whether only the user or the deadline ends it."""
        return self.count is None and self.stops is None

    def wait_s(self) -> float:
        """How long the next poll may take; 0 once the time is up."""
        if self.deadline_s is None:
            return POLL_S
        return min(POLL_S, max(0.0, self.deadline_s - time.monotonic()))

    def assign(self, partitions: Sequence[Partition]) -> None:
        """Take partitions in."""
        self.assigned = True
        self.open_partitions.update(partitions)

    def revoke(self, partitions: Sequence[Partition]) -> None:
        """Leave partitions to other members of the group, or until they are assigned again."""
        self.assigned = False
        self.open_partitions.difference_update(partitions)


@dataclass(frozen=True, slots=True)
class Reading:
    """A consumer with what it reads for.  `commits` says whether it reads in a group."""

    consumer: Consumer
    reports: Reports
    goal: Goal
    write: Writer
    keep: Filter | None
    out: BinaryIO
    commits: bool
    stop: Stop

    def assign(self, offsets: dict[Partition, Offsets]) -> None:
        """Read these partitions, without a group."""
        from confluent_kafka import TopicPartition

        wanted = [p for p, at in offsets.items() if at.stop is None or at.start < at.stop]
        self.goal.assign(wanted)
        self.consumer.assign([TopicPartition(*p, offsets[p].start) for p in wanted])

    def subscribe(self, topics: Sequence[str]) -> None:
        """Read what the group assigns."""

        def assigned(_consumer: Consumer, partitions: Sequence[Any]) -> None:
            self.goal.assign([(p.topic, p.partition) for p in partitions])

        def revoked(_consumer: Consumer, partitions: Sequence[Any]) -> None:
            self.goal.revoke([(p.topic, p.partition) for p in partitions])

        self.consumer.subscribe(list(topics), on_assign=assigned, on_revoke=revoked)

    def run(self, advance: Advance) -> None:
        """Write records until the goal is reached, the time is up, or a signal came.

        Raises: CommandError.
        """
        goal = self.goal
        arrived_s = time.monotonic()
        while not goal.reached and not self.stop.is_set():
            wait_s = goal.wait_s()
            if self._step(wait_s, advance):
                arrived_s = time.monotonic()
            elif goal.stops is not None and time.monotonic() - arrived_s > QUIET_S:
                self._check_stops()
                arrived_s = time.monotonic()
            if wait_s == 0:
                return

    def _step(self, wait_s: float, advance: Advance) -> bool:
        """Write the records of one poll; returns whether anything came."""
        # A batch of consume() alone would wait until it is full.
        first = self.consumer.poll(wait_s)
        messages = [] if first is None else [first, *self.consumer.consume(MESSAGES_PER_POLL, 0)]
        self.reports.check()
        goal, keep, write, stops = self.goal, self.keep, self.write, self.goal.stops
        left = None if goal.count is None else goal.count - goal.written
        lines: list[bytes] = []
        passed: dict[Partition, int] = {}
        failure: CommandError | None = None
        for message in messages:
            if message.error() is not None:
                failure = failure or self._take_event(message)
                continue
            if stops is not None and not self._is_below_stop(message, stops):
                continue
            if left is not None and len(lines) >= left:
                break
            if self.commits:
                passed[message.topic(), message.partition()] = message.offset()
            if keep is None or keep(message):
                lines.append(write(message))
        written = b"".join(lines)
        self._write(written)
        goal.written += len(lines)
        if messages:
            self.reports.arrived()
        if self.commits and passed:
            self._store(passed)
        advance(len(lines), len(written))
        if failure is not None:
            raise failure
        return bool(messages)

    def _is_below_stop(self, message: Message, stops: dict[Partition, int]) -> bool:
        """Whether a record is wanted; the last one before the stop, and any beyond, close it."""
        where = (message.topic(), message.partition())
        left: int = stops.get(where, 0) - message.offset()
        if left <= 1:
            self.goal.open_partitions.discard(where)
        return left > 0

    def _take_event(self, message: Message) -> CommandError | None:
        """The end of a partition, at which its last records may be hidden; or an error."""
        error = message.error()
        if error.code() != error._PARTITION_EOF:
            if error.retriable() or error.code() == error._MAX_POLL_EXCEEDED:
                return None
            return CommandError(sentence(error))
        where = (message.topic(), message.partition())
        if self.goal.stops is not None and message.offset() >= self.goal.stops.get(where, 0):
            self.goal.open_partitions.discard(where)
        return None

    def _write(self, lines: bytes) -> None:
        """Raises: OSError."""
        self.out.write(lines)
        self.out.flush()

    def _check_stops(self) -> None:
        """See whether what is waited for can still come.

        librdkafka tells nothing of a topic that was deleted.  Raises: CommandError.
        """
        assert self.goal.stops is not None
        waited_for = sorted(self.goal.open_partitions)
        if not waited_for:  # the group has not assigned any yet
            return
        present = topics_of(self.consumer)
        for topic, _ in waited_for:
            if topic not in present:
                raise CommandError(f"{topic} was deleted meanwhile")
        for where, end in offsets_at(self.consumer, waited_for, LATEST).items():
            stop = self.goal.stops.get(where, 0)
            if end < stop:
                raise CommandError(
                    f"{where[0]}-{where[1]} ends at offset {end} now, before {stop}:"
                    " the topic was deleted or cut meanwhile"
                )

    def _store(self, passed: dict[Partition, int]) -> None:
        """Let what was written be committed, in the background and when the consumer is closed."""
        from confluent_kafka import KafkaException, TopicPartition

        offsets = [TopicPartition(*where, offset + 1) for where, offset in passed.items()]
        try:
            self.consumer.store_offsets(offsets=offsets)
        except KafkaException as error:
            # A partition went to another member meanwhile, which reads these records again.
            if error.args[0].code() != error.args[0]._STATE:
                raise CommandError(sentence(error.args[0])) from None
