"""The progress of a copy, kept at the target: in a consumer group, and in the records' marks.

A copy is made in chunks.  Before the first record of a chunk is written, the group of the route
(`Route.group`) gets a commit: where each target partition ends, and, as metadata, up to which
offset each source partition is completely in the target.  After a crash, the marks of the records
between that commit and the target's ends say what the interrupted chunk has written.
"""

import itertools
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .errors import PipelineError
from .kafka import Admin, Kafka, Unreachable, client_errors
from .marks import HEADER, mark_of
from .placing import Route
from .properties import client_settings

VERSION: Final = 1
SETTLE_S: Final = 2.0
"""After this time a replaced writer has noticed, and everything that it sent has arrived."""
AWAY_S_MAX: Final = 300.0
"""How long a broker may be unavailable before the job fails; it can then be started again."""
PATIENCE_S: Final = 60.0
TAIL_RECORDS: Final = 10_000
POLL_MS: Final = 200
METADATA_BYTES_MAX: Final = 4096
"""Limit for one partition in a commit: Kafka's default of offset.metadata.max.bytes."""

# Source partition and target partition, to the last source offset that was written there.
Written = dict[tuple[int, int], int]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """The newest commit of a route's group."""

    asked: str
    """A digest of the request; only the same request can resume."""
    owner: str
    """The run that committed it."""
    begins: Mapping[int, int]
    """Where the target's partitions ended at that time."""
    done: Mapping[int, int] = field(default_factory=dict)
    """By source partition: below this offset, everything requested is in the target."""
    closed: bool = False
    """No chunk is in progress."""
    source_id: str | None = None
    """The topic id of the source; None: not known."""


class ProgressStore(Kafka):
    """The target cluster, with commits that carry metadata.  All methods raise PipelineError.

    If no broker answers, requests are retried for `AWAY_S_MAX`: the cluster was there before.
    """

    def _ask(self, question: Callable[[Admin], Any]) -> Any:
        deadline_s = time.monotonic() + AWAY_S_MAX
        while True:
            try:
                return super()._ask(question)
            except Unreachable:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(POLL_MS / 1000)

    def load(self, route: Route) -> Progress | None:
        """The progress of a route; None: there is none, or the topic was recreated since."""
        answer = self._ask(lambda admin: admin.list_group_offsets({route.group: None}))
        found = {
            key.partition: committed
            for key, committed in answer.get(route.group, {}).items()
            if key.topic == route.target_topic and committed.offset >= 0
        }
        if not found:
            return None
        parts = [_decoded(route, committed.metadata) for committed in found.values()]
        done = {int(p): offset for part in parts for p, offset in part["done"].items()}
        first = parts[0]
        # A partition that was added since was empty at first.
        begins = dict.fromkeys(range(route.partitions), 0)
        begins.update({p: committed.offset for p, committed in found.items()})
        return Progress(
            first["asked"], first["owner"], begins, done, first["closed"], first["source"]
        )

    def save(self, route: Route, progress: Progress) -> None:
        """Commit the progress of a route in one request."""
        from kafka import OffsetAndMetadata, TopicPartition

        wanted = {}
        for partition, begin in progress.begins.items():
            metadata = _encoded(progress, partition)
            key = TopicPartition(route.target_topic, partition)
            wanted[key] = OffsetAndMetadata(begin, metadata, -1)
        self._commit(route.group, wanted)


def check_room(route: Route, ends: Mapping[int, int]) -> None:
    """Refuse a copy whose progress may not fit into its group's commits.  Raises: PipelineError.

    `ends`: the end offsets of the copy, by source partition.
    """
    needed = next(count for count in itertools.count(route.partitions) if _has_room(count, ends))
    if needed > route.partitions:
        raise PipelineError(
            f"{route.target_topic} has {route.partitions} partitions, too few to keep the progress"
            f" of {len(ends)} partitions of {route.source_topic} in its group"
            f" (offset.metadata.max.bytes): give it at least {needed}"
        )


def _has_room(partitions: int, ends: Mapping[int, int]) -> bool:
    whole = Progress("." * 16, "." * 16, dict.fromkeys(range(partitions), 0), ends)
    return all(len(_encoded(whole, p)) <= METADATA_BYTES_MAX for p in whole.begins)


def check_owner(store: ProgressStore, route: Route, owner: str) -> None:
    """Refuse to continue a run that another has replaced.  Raises: PipelineError."""
    newest = store.load(route)
    if newest is not None and newest.owner != owner:
        raise PipelineError(
            f"another job has begun to copy {route.source_topic} to {route.target_topic}: let only"
            f" one run, or give each a --name of its own"
        )


def _encoded(progress: Progress, partition: int) -> str:
    """The metadata that a target partition's commit gets: its share of the progress."""
    done, count = progress.done, len(progress.begins)
    document = {
        "v": VERSION,
        "asked": progress.asked,
        "owner": progress.owner,
        "source": progress.source_id,
        "closed": progress.closed,
        "done": {p: offset for p, offset in done.items() if p % count == partition},
    }
    return json.dumps(document, separators=(",", ":"))


def _decoded(route: Route, metadata: str) -> dict[str, Any]:
    try:
        document = json.loads(metadata)
        if document["v"] == VERSION:
            return dict(document)
    except (ValueError, KeyError, TypeError):
        pass
    raise PipelineError(
        f"group {route.group} holds commits that are no progress of this job: give it a --name of"
        " its own, or delete the group"
    )


# -- the marks of the target's records


def written_since(
    kafka: Kafka, route: Route, begins: Mapping[int, int], claimed_at_s: float
) -> Written:
    """What the job's marks from `begins` on say, once no more of them arrive after a claim.

    `claimed_at_s` is a time.monotonic().  Raises: PipelineError, also if another job keeps writing.
    """
    if time.monotonic() - claimed_at_s >= SETTLE_S and kafka.latest(route.target_topic) == begins:
        return {}
    with _Reader(kafka, route) as reader:
        reader.seek(begins)
        reader.read_to_end()
        deadline = time.monotonic() + PATIENCE_S
        quiet_since = claimed_at_s
        while True:
            # Reading may take long, and stops where the topic ended when it began.
            looked_at_s = time.monotonic()
            if reader.read_to_end():
                quiet_since = time.monotonic()
            elif looked_at_s - quiet_since >= SETTLE_S:
                return reader.written
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"another job is still copying {route.source_topic} to {route.target_topic}:"
                    " end it, or give this one a --name of its own"
                )
            time.sleep(POLL_MS / 1000)


def written_lately(kafka: Kafka, route: Route) -> Written:
    """What the marks of the last records of each partition say.  Raises: PipelineError."""
    latest = kafka.latest(route.target_topic)
    earliest = kafka.earliest(route.target_topic)
    begins = {p: max(earliest[p], end - TAIL_RECORDS) for p, end in latest.items()}
    if begins == latest:
        return {}
    with _Reader(kafka, route) as reader:
        reader.seek(begins)
        reader.read_to_end()
        return reader.written


class _Reader:
    """Reads a target topic to its end, repeatedly."""

    def __init__(self, kafka: Kafka, route: Route) -> None:
        self.kafka = kafka
        self.route = route
        self.written: Written = {}
        """What the marks read so far say."""

    def __enter__(self) -> "_Reader":
        from kafka import KafkaConsumer

        with client_errors(self.kafka.bootstrap_servers):
            self._consumer = KafkaConsumer(
                **{
                    **client_settings(self.kafka.bootstrap_servers, self.kafka.properties),
                    "enable_auto_commit": False,
                    "auto_offset_reset": "earliest",
                    "metrics_enabled": False,
                }
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def seek(self, begins: Mapping[int, int]) -> None:
        """Start at these offsets, or at the log start offset if that is higher."""
        from kafka import TopicPartition

        topic = self.route.target_topic
        earliest = self.kafka.earliest(topic)
        with client_errors(self.kafka.bootstrap_servers):
            self._consumer.assign([TopicPartition(topic, p) for p in begins])
            for partition, begin in begins.items():
                start = max(begin, earliest[partition])
                self._consumer.seek(TopicPartition(topic, partition), start)

    def read_to_end(self) -> int:
        """Read up to where the topic ends now; returns the number of marks of this copy."""
        marks = 0
        with client_errors(self.kafka.bootstrap_servers):
            assigned = list(self._consumer.assignment())
            ends = self._consumer.end_offsets(assigned)
            deadline = time.monotonic() + PATIENCE_S
            while any(self._consumer.position(tp) < end for tp, end in ends.items()):
                polled = self._consumer.poll(timeout_ms=POLL_MS)
                for tp, records in polled.items():
                    marks += sum(self._note(tp.partition, record) for record in records)
                if polled:
                    deadline = time.monotonic() + PATIENCE_S
                elif time.monotonic() > deadline:
                    raise PipelineError(
                        f"{self.route.target_topic} cannot be read to its end at"
                        f" {self.kafka.bootstrap_servers}: look at its partitions' leaders"
                    )
        return marks

    def _note(self, partition: int, record: Any) -> bool:
        """Note the mark of a record; returns whether the record belongs to this copy."""
        headers = record.headers
        if not any(key == HEADER for key, _ in headers):
            return False
        mark = mark_of(headers)
        if mark is None or (mark.topic, mark.name) != (self.route.source_topic, self.route.name):
            return False
        if self.route.place(mark.partition, record.key) != partition:
            raise PipelineError(
                f"{self.route.target_topic}-{partition} holds the record"
                f" {mark.topic}-{mark.partition} {mark.offset}, which would be placed in another"
                f" partition now: go on with the same options and number of partitions, or copy"
                f" into another topic"
            )
        key = (mark.partition, partition)
        self.written[key] = max(mark.offset, self.written.get(key, -1))
        return True
