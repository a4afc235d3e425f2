"""Questions about reading from the nearest replica, to Odradek and to Apache Kafka alike.

Each is one request to one broker of a cluster of three, each in a rack of its own; what is kept of
an answer is all of it, but for what differs from run to run (ids, ports, contents of batches).
`python -m tests.lab.near_reads` records Kafka's answers.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from odradek.protocol.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.schema import Message
from tests.support.messages import batch_of
from tests.support.waiting import until

from . import admin
from .asking import ask
from .cluster import PATIENT, Cluster

VECTORS: Final = Path(__file__).resolve().parents[1] / "vectors" / "near_reads.json"
SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SETTINGS: Final = {
    **PATIENT,  # whoever leaves an in-sync set for a moment is nobody's nearest replica
    "replica.selector.class": SELECTOR,
    "log.retention.ms": "-1",  # the records are of long ago
}
RACKS: Final = {broker: {"broker.rack": f"r{broker}"} for broker in range(3)}
TOPIC: Final = "near"
PAIR: Final = "pair"
"""On brokers 0 and 1 only."""
BATCHES: Final = 4
START: Final = 1
LEADER, FOLLOWER, OTHER = 0, 1, 2
DEBUGGER: Final = -2
NOBODY: Final = -1
CHANGING: Final = frozenset({"topic_id", "port", "throttle_time_ms", "tagged_fields"})

Question = tuple[str, int, Message, int]
"""What it is about, the broker, the request and its version."""
Answers = dict[str, Any]


class NearReads:
    """A cluster with the topics in it."""

    def __init__(self, lab: Cluster) -> None:
        self.lab = lab
        self._ids: dict[str, bytes] = {}

    def prepare(self) -> None:
        """Two topics, led by broker 0: the same on all replicas, as far as readers may see."""
        admin.create_topic(self.lab, TOPIC, assignment=[[0, 1, 2]])
        admin.create_topic(self.lab, PAIR, assignment=[[0, 1]])
        self.lab.settle()
        for topic in (TOPIC, PAIR):
            answer = self.ask(
                LEADER, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12
            )
            self._ids[topic] = answer.topics[0].topic_id
            for number in range(BATCHES):
                self.produce(topic, b"%d" % number)
            self._delete_records(topic)
        until(lambda: all(self._is_level(broker) for broker in RACKS), "all replicas are level")

    def produce(self, topic: str, value: bytes) -> None:
        """One record, acks=all."""
        data = PartitionProduceData(index=0, records=batch_of(value))
        topics = [TopicProduceData(name=topic, partition_data=[data])]
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
        self.lab.ask(request, 9, broker=LEADER)

    def _delete_records(self, topic: str) -> None:
        partitions = [DeleteRecordsPartition(partition_index=0, offset=START)]
        topics = [DeleteRecordsTopic(name=topic, partitions=partitions)]
        self.lab.ask(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2, broker=LEADER)

    def _is_level(self, broker: int) -> bool:
        found = self.fetch(broker, 11, offset=BATCHES).responses[0].partitions[0]
        return (found.high_watermark, found.log_start_offset) == (BATCHES, START)

    def ask(self, broker: int, request: Message, version: int) -> Any:
        """The answer, whatever it is."""
        return ask(self.lab.brokers[broker].address, request, version)

    def fetch(self, broker: int, version: int, **asked: Any) -> FetchResponse:
        """What `fetch_request` gets."""
        answer: FetchResponse = self.ask(broker, self.fetch_request(version, **asked), version)
        return answer

    def fetch_request(
        self,
        version: int,
        topic: str = TOPIC,
        offset: int = START,
        *,
        rack: str = "",
        epoch: int = -1,
        last_epoch: int = -1,
        replica: int = -1,
        **more: Any,
    ) -> FetchRequest:
        """For one partition; waits for nothing."""
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=1 << 20,
        )
        named = FetchTopic(partitions=[partition])
        if version < 13:
            named.topic = topic
        else:
            named.topic_id = self._ids[topic]
        return FetchRequest(
            replica_id=replica,
            replica_state=ReplicaState(replica_id=replica, replica_epoch=-1),
            max_wait_ms=0,
            min_bytes=1,
            topics=[named],
            rack_id=rack,
            **more,
        )

    # What is asked.

    def answers(self) -> Answers:
        """Of all questions; then of those that go on with a session."""
        found = {
            what: plain(self.ask(broker, request, version))
            for what, broker, request, version in self._questions()
        }
        return found | self._session() | self._death()

    def _questions(self) -> Iterator[Question]:
        for version in (4, 7, 10, 11, 12, 13, 16, 17):
            for broker in RACKS:
                for rack in ("", "r0", "r1", "elsewhere"):
                    what = f"v{version} broker {broker} rack {rack!r}"
                    yield what, broker, self.fetch_request(version, rack=rack), version
        for broker in RACKS:
            yield from self._odd_fetches(broker)
            yield from self._other_requests(broker)

    def _odd_fetches(self, broker: int) -> Iterator[Question]:
        whom = f"broker {broker}"
        for version in (11, 17):
            for rack in ("", "r1"):
                odd: dict[str, dict[str, Any]] = {
                    **{f"offset {at}": {"offset": at} for at in (-1, 0, BATCHES, BATCHES + 1)},
                    **{f"epoch {epoch}": {"epoch": epoch} for epoch in (0, 5)},
                    "pair": {"topic": PAIR},
                    "committed": {"isolation_level": 1},
                    "debugger": {"replica": DEBUGGER},
                }
                for what, asked in odd.items():
                    request = self.fetch_request(version, rack=rack, **asked)
                    yield f"v{version} {whom} rack {rack!r} {what}", broker, request, version
        for last_epoch, offset in ((0, BATCHES), (0, BATCHES + 1), (3, 2), (3, BATCHES + 1)):
            request = self.fetch_request(12, offset=offset, last_epoch=last_epoch)
            yield f"v12 {whom} offset {offset} last epoch {last_epoch}", broker, request, 12
        request = self.fetch_request(12, offset=BATCHES + 1, last_epoch=0, isolation_level=1)
        yield f"v12 {whom} diverging, committed", broker, request, 12

    def _other_requests(self, broker: int) -> Iterator[Question]:
        for version in (1, 5, 9):
            for timestamp in (-1, -2, 0):
                for replica, epoch in ((-1, -1), (-1, 5), (DEBUGGER, -1)):
                    asked = list_offsets(timestamp, replica, epoch)
                    what = f"ListOffsets v{version} broker {broker} {timestamp} {replica} {epoch}"
                    yield what, broker, asked, version
        for epoch in (-1, 0, 5):
            partition = OffsetForLeaderPartition(
                partition=0, current_leader_epoch=epoch, leader_epoch=0
            )
            request = OffsetForLeaderEpochRequest(
                replica_id=-1, topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=[partition])]
            )
            yield f"OffsetForLeaderEpoch v4 broker {broker} {epoch}", broker, request, 4

    def _session(self) -> Answers:
        """Incremental fetches (KIP-227): who is sent elsewhere is told so again and again."""
        found: Answers = {}
        for broker, rack in ((LEADER, "r1"), (LEADER, "r0"), (FOLLOWER, "r1")):
            first = self.fetch(broker, 11, rack=rack, session_id=0, session_epoch=0)
            answers = [plain(first)]
            for epoch in (1, 2):
                request = FetchRequest(
                    replica_id=-1,
                    max_wait_ms=0,
                    min_bytes=1,
                    session_id=first.session_id,
                    session_epoch=epoch,
                    rack_id=rack,
                )
                answers.append(plain(self.ask(broker, request, 11)))
            found[f"session with broker {broker} rack {rack!r}"] = answers
        return found

    def _death(self) -> Answers:
        """Nobody is sent to a follower that is dead; and again when it is back in sync."""

        def preferred() -> int:
            found = self.fetch(LEADER, 11, rack="r1").responses[0].partitions[0]
            return found.preferred_read_replica

        answers = []
        self.lab.kill(FOLLOWER, expire=True)
        until(lambda: preferred() == NOBODY, "nobody is sent to the dead follower")
        answers.append(plain(self.fetch(LEADER, 11, rack="r1")))
        self.lab.start(FOLLOWER)
        until(lambda: preferred() == FOLLOWER, "readers are sent to the follower that is back")
        answers.append(plain(self.fetch(LEADER, 11, rack="r1")))
        return {"a follower dies and returns": answers}


def list_offsets(timestamp: int, replica: int = -1, epoch: int = -1) -> ListOffsetsRequest:
    """For the one partition."""
    partition = ListOffsetsPartition(
        partition_index=0, current_leader_epoch=epoch, timestamp=timestamp
    )
    topics = [ListOffsetsTopic(name=TOPIC, partitions=[partition])]
    return ListOffsetsRequest(replica_id=replica, topics=topics)


def plain(answer: Any) -> Any:
    """What is compared."""
    if isinstance(answer, bytes | bytearray | memoryview):
        return f"{len(answer)} bytes"
    if isinstance(answer, list | tuple):
        return [plain(item) for item in answer]
    if not hasattr(answer, "_names"):
        return answer
    fields = {
        name: plain(getattr(answer, name)) for name in answer._names() if name not in CHANGING
    }
    if fields.get("session_id"):
        fields["session_id"] = "some"
    is_unset = all(value == -1 for value in fields.values())
    return "unset" if is_unset else fields


def run(kind: str, directory: Path | None = None) -> Answers:
    """All answers of a cluster of this kind."""
    with Cluster(kind, directory=directory, settings=SETTINGS, own_settings=RACKS) as lab:
        lab.start_zookeeper()
        lab.start()
        near = NearReads(lab)
        near.prepare()
        return near.answers()


def load() -> Answers:
    """What Apache Kafka answered."""
    answers: Answers = json.loads(VECTORS.read_text())
    return answers


if __name__ == "__main__":
    kind = sys.argv[1] if len(sys.argv) > 1 else "kafka"
    path = Path(sys.argv[2]) if len(sys.argv) > 2 else VECTORS
    lines = [f"{json.dumps(what)}: {json.dumps(answer)}" for what, answer in run(kind).items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
