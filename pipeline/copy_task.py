"""Writes records in strict order, on Spark's executors.

Records are sent in rounds: at most one batch for each target partition, and the next round only
after every batch of this one is acknowledged.  So what a target partition holds of a source
partition is always a prefix, whatever is killed and when, and a restart relies on that.  Spark's
own sink sends several batches at a time and gives no such guarantee.
"""

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from .copy_progress import AWAY_S_MAX, ProgressStore, Written, check_owner
from .errors import PipelineError
from .kafka import Unreachable, sentence
from .marks import HEADER, Headers, Mark, encoded
from .placing import Route

ROUND_BYTES_MAX: Final = 512 * 1024
ROUND_RECORDS_MAX: Final = 20_000
BATCH_OVERHEAD_BYTES: Final = 100
RECORD_OVERHEAD_BYTES: Final = 40
HEADER_OVERHEAD_BYTES: Final = 10
DELIVERY_TIMEOUT_MS: Final = int(AWAY_S_MAX * 1000)
LEASE_S: Final = 1.0
"""How long a task sends after checking that its job still owns the copy.  It checks twice as often;
a start waits twice as long (`SETTLE_S`)."""
NO_TIME_MS: Final = 2**63 - 1
BURST_S: Final = 0.1


class Record(NamedTuple):
    """One record of the source."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size_bytes(self) -> int:
        """Upper bound of the record's size in a batch, with its mark."""
        size = RECORD_OVERHEAD_BYTES + len(self.key or b"") + len(self.value or b"")
        for name, value in self.headers:
            size += HEADER_OVERHEAD_BYTES + len(name.encode()) + len(value or b"")
        return size + HEADER_OVERHEAD_BYTES + len(HEADER) + len(self.topic) + 140


@dataclass(frozen=True, slots=True)
class Lane:
    """One route, as the tasks of a chunk need it."""

    route: Route
    size_bytes_max: int
    """Size of the largest batch that the target accepts."""
    written: Written = field(default_factory=dict)
    """What a killed or replaced job has already written of the chunk."""


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Parameters for every task of a chunk."""

    bootstrap_servers: str
    properties: Mapping[str, str]
    lanes: Mapping[str, Lane]
    """By source topic."""
    owner: str
    """The run of the job that the tasks belong to."""
    rates: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """Records per second for the task that has a source partition; no entry: no limit."""
    compression: str | None = None
    """As kafka-python names it."""
    option: str = "--bootstrap-servers"
    """The command-line option to check when no broker answers."""


class Pace:
    """Limits the rate of records."""

    def __init__(
        self,
        rate: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._step_s = 1 / rate
        self._clock = clock
        self._sleep = sleep
        self._due_s = clock()

    def wait(self, before_sleep: Callable[[], None]) -> None:
        """Return when one more record may be written; lost time is made up for `BURST_S` only."""
        now = self._clock()
        self._due_s = max(self._due_s, now - BURST_S) + self._step_s
        if self._due_s - now > BURST_S:
            before_sleep()
            self._sleep(max(0.0, self._due_s - self._clock()))


class Lease:
    """Stops a task whose job was replaced by another one: a task has to check that itself."""

    def __init__(self, task: CopyTask, *, clock: Callable[[], float] = time.time) -> None:
        self._store = ProgressStore(task.bootstrap_servers, task.properties, option=task.option)
        self._task = task
        self._clock = clock
        self._looked_at_s: dict[str, float] = {}
        self._oldest_look_s = -math.inf

    @property
    def is_held(self) -> bool:
        """Whether records of the topics that were checked last may be sent right now."""
        return 0 <= self._clock() - self._oldest_look_s < LEASE_S

    def check(self, topics: Collection[str]) -> None:
        """Check that the run still owns the copies of these source topics, where that is due.

        Raises: PipelineError if another run owns one of them.
        """
        for topic in topics:
            now = self._clock()
            if not 0 <= now - self._looked_at_s.get(topic, -math.inf) < LEASE_S / 2:
                check_owner(self._store, self._task.lanes[topic].route, self._task.owner)
                self._looked_at_s[topic] = now
        self._oldest_look_s = min(self._looked_at_s[topic] for topic in topics)

    def close(self) -> None:
        """Close the connection."""
        self._store.close()


@dataclass(slots=True)
class Tally:
    """Counts for the records of one source partition."""

    next_offset: int = 0
    written: int = 0
    skipped: int = 0
    oldest_ms: int = NO_TIME_MS
    """The lowest timestamp of those written."""


class RecordWriter:
    """Writes records one after another through an idempotent producer of kafka-python."""

    def __init__(
        self,
        lanes: Mapping[str, Lane],
        producer: Any,
        pace: Pace | None = None,
        lease: Lease | None = None,
    ) -> None:
        self._lanes = lanes
        self._producer = producer
        self._pace = pace
        self._lease = lease
        self._sizes: dict[tuple[str, int], int] = {}
        self._pending: list[tuple[Any, Record]] = []
        self.tallies: dict[tuple[str, int], Tally] = {}

    def write(self, record: Record) -> None:
        """Write a record unless the target has it already.  Raises: PipelineError, KafkaError."""
        lane = self._lanes[record.topic]
        tally = self.tallies.setdefault((record.topic, record.partition), Tally())
        tally.next_offset = record.offset + 1
        partition = lane.route.place(record.partition, record.key)
        if record.offset <= lane.written.get((record.partition, partition), -1):
            tally.skipped += 1
            return
        if self._pace is not None:
            self._pace.wait(self.flush)
        is_large = self._make_room(lane, partition, record)
        self._pending.append((self._send(lane.route, partition, record), record))
        tally.written += 1
        tally.oldest_ms = min(tally.oldest_ms, record.timestamp_ms)
        if is_large:
            self.flush()

    def flush(self) -> None:
        """End the round; returns when all is acknowledged.  Raises: PipelineError, KafkaError."""
        if not self._pending:
            return
        self._deliver()
        pending, self._pending = self._pending, []
        self._sizes.clear()
        for future, record in pending:
            self._check(future, record)

    def _deliver(self) -> None:
        """Send the round, retry if necessary, and check the lease before each attempt."""
        from kafka.errors import KafkaTimeoutError

        deadline_s = time.monotonic() + DELIVERY_TIMEOUT_MS / 1000
        while True:
            try:
                if self._lease is not None:
                    self._lease.check({record.topic for _, record in self._pending})
                self._producer.flush(timeout=LEASE_S)
                return
            except (KafkaTimeoutError, Unreachable):
                if time.monotonic() > deadline_s:
                    raise

    def _make_room(self, lane: Lane, partition: int, record: Record) -> bool:
        """End the round if the record does not fit; returns whether it needs a batch of its own.

        If a batch filled up before its round ends, the producer would send all others with it.
        """
        limit = min(ROUND_BYTES_MAX, lane.size_bytes_max) - BATCH_OVERHEAD_BYTES
        target = (lane.route.target_topic, partition)
        own_size = record.size_bytes
        size = self._sizes.get(target, 0) + own_size
        if size > limit or len(self._pending) >= ROUND_RECORDS_MAX:
            self.flush()
            size = own_size
        self._sizes[target] = size
        return size > limit

    def _send(self, route: Route, partition: int, record: Record) -> Any:
        mark = encoded(Mark(record.topic, record.partition, record.offset, route.name))
        headers = [*record.headers, (HEADER, mark)]
        is_empty = record.key is None and record.value is None
        if is_empty or any(value is None for _, value in record.headers):
            return self._send_unusual(route.target_topic, partition, record, headers)
        return self._producer.send(
            route.target_topic,
            record.value,
            record.key,
            headers,
            partition,
            record.timestamp_ms,
        )

    def _send_unusual(self, topic: str, partition: int, record: Record, headers: Headers) -> Any:
        """Send a record that `send` refuses, though Kafka accepts it and it can be encoded."""
        from kafka import TopicPartition

        # `send` would have waited for the topic's metadata.
        self._producer.partitions_for(topic)
        appended = self._producer._accumulator.append(
            TopicPartition(topic, partition),
            record.timestamp_ms,
            record.key,
            record.value,
            UncountedHeaders(headers),
        )
        return appended[0]

    def _check(self, future: Any, record: Record) -> None:
        from kafka.errors import KafkaError

        try:
            future.get(DELIVERY_TIMEOUT_MS / 1000)
        except KafkaError as error:
            target = self._lanes[record.topic].route.target_topic
            raise PipelineError(
                f"{target} does not take the record {record.topic}-{record.partition}"
                f" {record.offset}: {sentence(error)}; what is written so far stays, and the same"
                f" command goes on behind it"
            ) from error


class UncountedHeaders(list[tuple[str, bytes | None]]):
    """Headers that kafka-python does not measure for its metrics: it would fail at a null value."""

    def __bool__(self) -> bool:
        return False
