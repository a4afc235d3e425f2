"""A fake controller's requests to one broker: each old, equal or newer in each of its epochs.

The same script is sent to Kafka and to us. The broker has id OURS; broker OTHER is alive, but there
is nothing behind its address.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final, NamedTuple

from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.k04_leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from odradek.protocol.messages.k05_stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from odradek.protocol.messages.k06_update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.schema import Message
from tests.support.messages import batch_of, produce_request

OURS: Final = 0
OTHER: Final = 1
ELSEWHERE: Final = 2
"""Alive, but without the listener that clients come by."""
DEAD: Final = 77
CONTROLLER_EPOCH: Final = 1000
EPOCH: Final = 10
AGES: Final = {"older": -1, "equal": 0, "newer": 1}


class Step(NamedTuple):
    """One request."""

    name: str
    version: int
    request: Message


class Script:
    """All steps; `broker_epoch` is what the broker was registered with."""

    def __init__(self, broker_epoch: int) -> None:
        self._broker_epoch = broker_epoch
        self._controller_epoch = CONTROLLER_EPOCH
        self._ids: dict[str, bytes] = {}

    def steps(self) -> Iterator[Step]:
        """In order."""
        yield Step("who is alive", 8, self.update())
        yield from self._controllers_and_brokers()
        yield from self._leader_and_partition_epochs()
        yield from self._topic_ids()
        yield from self._leaders()
        yield from self._stops()
        yield from self._versions()
        yield from self._kraft()
        yield from self._metadata()
        yield from self._offsets()
        yield from self._timestamps()

    def topic_id(self, topic: str) -> bytes:
        """The id of a topic of this script."""
        fresh = len(self._ids).to_bytes(15, "big") + b"i"
        return self._ids.setdefault(topic, fresh)

    def names(self) -> Mapping[bytes, str]:
        """The topics by their ids."""
        return {topic_id: topic for topic, topic_id in self._ids.items()}

    # Requests.

    def lead(
        self, topic: str, *, version: int = 7, topic_id: bytes | None = None, **changed: Any
    ) -> LeaderAndIsrRequest:
        """LeaderAndIsr for partition 0 of a topic."""
        fields: dict[str, Any] = {
            "controller_epoch": self._controller_epoch,
            "leader": OURS,
            "leader_epoch": EPOCH,
            "isr": [OURS, OTHER],
            "partition_epoch": EPOCH,
            "replicas": [OURS, OTHER],
            "is_new": True,
        }
        state = LeaderAndIsrPartitionState(topic_name=topic, **{**fields, **changed})
        grouped = LeaderAndIsrTopicState(
            topic_name=topic,
            topic_id=self.topic_id(topic) if topic_id is None else topic_id,
            partition_states=[state],
        )
        return LeaderAndIsrRequest(
            **self._stamp(),
            ungrouped_partition_states=[state],
            topic_states=[grouped],
        )

    def stop(
        self, topic: str, leader_epoch: int = EPOCH, *, delete: bool = False
    ) -> StopReplicaRequest:
        """StopReplica for partition 0 of a topic."""
        state = StopReplicaPartitionState(
            partition_index=0, leader_epoch=leader_epoch, delete_partition=delete
        )
        return StopReplicaRequest(
            **self._stamp(),
            delete_partitions=delete,
            ungrouped_partitions=[StopReplicaPartitionV0(topic_name=topic, partition_index=0)],
            topics=[StopReplicaTopicV1(name=topic, partition_indexes=[0])],
            topic_states=[StopReplicaTopicState(topic_name=topic, partition_states=[state])],
        )

    def update(self, *states: UpdateMetadataPartitionState) -> UpdateMetadataRequest:
        """UpdateMetadata with three brokers."""
        topics = {state.topic_name: list[UpdateMetadataPartitionState]() for state in states}
        for state in states:
            topics[state.topic_name].append(state)
        return UpdateMetadataRequest(
            **self._stamp(),
            ungrouped_partition_states=list(states),
            topic_states=[
                UpdateMetadataTopicState(
                    topic_name=topic, topic_id=self.topic_id(topic), partition_states=grouped
                )
                for topic, grouped in topics.items()
            ],
            live_brokers=[
                _broker(OURS, "PLAINTEXT", "rack-a"),
                _broker(OTHER, "PLAINTEXT", None),
                _broker(ELSEWHERE, "INTERNAL", "rack-b"),
            ],
        )

    def shown(self, topic: str, partition: int = 0, **changed: Any) -> UpdateMetadataPartitionState:
        """A partition of UpdateMetadata."""
        fields: dict[str, Any] = {
            "controller_epoch": self._controller_epoch,
            "leader": OURS,
            "leader_epoch": EPOCH,
            "isr": [OURS, OTHER],
            "zk_version": EPOCH,
            "replicas": [OURS, OTHER],
        }
        made = {**fields, **changed}
        return UpdateMetadataPartitionState(topic_name=topic, partition_index=partition, **made)

    def _stamp(self) -> dict[str, Any]:
        return {
            "controller_id": OTHER,
            "controller_epoch": self._controller_epoch,
            "broker_epoch": self._broker_epoch,
        }

    def _probe(self, name: str, topic: str) -> Iterator[Step]:
        """Which leader epoch the broker knows, and whether it leads."""
        for epoch in (EPOCH - 1, EPOCH, EPOCH + 1):
            asked = ListOffsetsPartition(
                partition_index=0, current_leader_epoch=epoch, timestamp=-2
            )
            request = ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
            )
            yield Step(f"{name}: does it lead in {epoch}", 9, request)

    # The matrix.

    def _controllers_and_brokers(self) -> Iterator[Step]:
        broker_epochs = {**AGES, "unknown": None}
        for number, (kind, controller, broker) in enumerate(
            product(("lead", "stop", "update"), AGES, broker_epochs)
        ):
            topic = f"fence-{number}"
            requests: dict[str, LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest]
            requests = {
                "lead": self.lead(topic),
                "stop": self.stop(topic, delete=True),
                "update": self.update(self.shown(topic)),
            }
            request, age = requests[kind], broker_epochs[broker]
            request.controller_epoch += AGES[controller]
            request.broker_epoch = -1 if age is None else self._broker_epoch + age
            if controller == "newer" and broker != "older":
                self._controller_epoch += 1
            version = {"lead": 7, "stop": 4, "update": 8}[kind]
            yield Step(f"{kind}: {controller} controller, {broker} broker", version, request)

    def _leader_and_partition_epochs(self) -> Iterator[Step]:
        for first, second, leader_age, partition_age in product(
            (OURS, OTHER), (OURS, OTHER), AGES, AGES
        ):
            topic = f"epochs-{first}-{second}-{leader_age}-{partition_age}"
            name = (
                f"{first} to {second}, {leader_age} leader epoch, {partition_age} partition epoch"
            )
            yield Step(f"{name}: at first", 7, self.lead(topic, leader=first))
            changed = self.lead(
                topic,
                leader=second,
                leader_epoch=EPOCH + AGES[leader_age],
                partition_epoch=EPOCH + AGES[partition_age],
                is_new=False,
            )
            yield Step(name, 7, changed)
            yield Step(f"{name}: known to clients", 8, self.update(self.shown(topic)))
            yield from self._probe(name, topic)

    def _topic_ids(self) -> Iterator[Step]:
        other, later = b"another-topic-id", EPOCH + 1
        for leader in (OURS, OTHER):
            topic = f"ids-{leader}"
            yield Step(f"{topic}: at first", 7, self.lead(topic, leader=leader))
            request = self.lead(topic, leader=leader, topic_id=other, leader_epoch=later)
            yield Step(f"{topic}: another id, newer epoch", 7, request)
            request = self.lead(topic, leader=leader, topic_id=ZERO_UUID)
            yield Step(f"{topic}: no id, equal epoch", 7, request)
            request = self.lead(topic, leader=leader, topic_id=ZERO_UUID, leader_epoch=later)
            yield Step(f"{topic}: no id, newer epoch", 7, request)
            nameless = f"nameless-{leader}"
            yield Step(f"{nameless}: at first", 4, self.lead(nameless, leader=leader))
            yield Step(f"{nameless}: again", 4, self.lead(nameless, leader=leader))
            yield Step(f"{nameless}: gets an id", 7, self.lead(nameless, leader=leader))
            yield Step(f"{nameless}: gets it again", 7, self.lead(nameless, leader=leader))
            request = self.lead(nameless, leader=leader, topic_id=other, leader_epoch=later)
            yield Step(f"{nameless}: another id", 7, request)

    def _leaders(self) -> Iterator[Step]:
        for leader in (-1, DEAD, ELSEWHERE):
            topic = f"leader-{leader}"
            for time in ("first", "again"):
                yield Step(f"{topic}: {time}", 7, self.lead(topic, leader=leader))
            yield Step(f"{topic}: ours in the end", 7, self.lead(topic))
            request = self.lead(topic, leader=leader, leader_epoch=EPOCH + 1)
            yield Step(f"{topic}: no more", 7, request)
            yield Step(f"{topic}: known to clients", 8, self.update(self.shown(topic)))
            yield from self._probe(topic, topic)
        request = self.lead("foreign", leader=OTHER, replicas=[OTHER], isr=[OTHER])
        yield Step("a replica of others", 7, request)
        request = self.lead("foreign", leader=OURS, replicas=[OTHER], isr=[OTHER])
        yield Step("a leader that is no replica", 7, request)

    def _stops(self) -> Iterator[Step]:
        epochs = {"older": EPOCH - 1, "equal": EPOCH, "newer": EPOCH + 1, "no": -1, "deleted": -2}
        for leader, age, delete in product((OURS, OTHER), epochs, (False, True)):
            topic = f"stop-{leader}-{age}-{delete}".lower()
            yield Step(f"{topic}: at first", 7, self.lead(topic, leader=leader))
            yield Step(f"{topic}: known to clients", 8, self.update(self.shown(topic)))
            yield Step(topic, 4, self.stop(topic, epochs[age], delete=delete))
            yield from self._probe(topic, topic)
            yield Step(f"{topic}: told again", 7, self.lead(topic, leader=leader))
        for delete in (False, True):
            yield Step(f"stop what is not there {delete}", 4, self.stop("absent", delete=delete))

    def _versions(self) -> Iterator[Step]:
        for version in range(8):
            yield Step(f"lead v{version}", version, self.lead(f"v-{version}"))
        for version in range(5):
            yield Step(f"stop v{version}", version, self.stop(f"v-{version}", delete=version < 3))
            yield Step(f"after stop v{version}", 7, self.lead(f"v-{version}"))
        for version in range(4, 9):  # before v4 all replicas would count as online
            yield Step(f"update v{version}", version, self.update(self.shown(f"v-{version}")))

    def _kraft(self) -> Iterator[Step]:
        for epoch in (self._broker_epoch, -1):
            request = self.lead(f"kraft{epoch == -1}")
            request.is_k_raft_controller, request.broker_epoch = True, epoch
            yield Step(f"lead of KRaft, broker epoch {epoch == -1}", 7, request)
            stopping = self.stop(f"kraft{epoch == -1}")
            stopping.is_k_raft_controller, stopping.broker_epoch = True, epoch
            yield Step(f"stop of KRaft, broker epoch {epoch == -1}", 4, stopping)
        updating = self.update()
        updating.is_k_raft_controller = True
        yield Step("update of KRaft", 8, updating)

    # Offsets, to consumers, brokers and debuggers.

    def _offsets(self) -> Iterator[Step]:
        yield Step("the other broker is back", 8, self.update(self.shown("offsets")))
        yield Step("offsets are led", 7, self.lead("offsets"))
        batches = {0: batch_of(b"a", timestamp=100)}
        yield Step("a record", 9, produce_request("offsets", batches, acks=1))
        yield from self._asked("not committed yet")
        yield Step("led anew", 7, self.lead("offsets", leader_epoch=EPOCH + 1))
        yield from self._asked("behind the epoch's start")
        alone = self.lead("offsets", leader_epoch=EPOCH + 2, isr=[OURS], partition_epoch=EPOCH + 2)
        yield Step("alone in sync", 7, alone)
        followed = self.lead(
            "offsets", leader=OTHER, leader_epoch=EPOCH + 3, partition_epoch=EPOCH + 3
        )
        yield Step("led elsewhere", 7, followed)
        yield from self._asked("a follower")

    def _asked(self, name: str) -> Iterator[Step]:
        for asker, timestamp, version in product((-1, OTHER, -2), (-1, -2, 50, 150), (4, 9)):
            asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            request = ListOffsetsRequest(
                replica_id=asker, topics=[ListOffsetsTopic(name="offsets", partitions=[asked])]
            )
            yield Step(f"{name}: {asker} asks for {timestamp} in v{version}", version, request)
        for asker, current, epoch in product((-1, OTHER), (-1, EPOCH, EPOCH + 1), (EPOCH, 5, 99)):
            wanted = OffsetForLeaderPartition(
                partition=0, current_leader_epoch=current, leader_epoch=epoch
            )
            ends = OffsetForLeaderEpochRequest(
                replica_id=asker,
                topics=[OffsetForLeaderTopic(topic="offsets", partitions=[wanted])],
            )
            yield Step(f"{name}: {asker} in {current} asks for the end of {epoch}", 4, ends)

    def _timestamps(self) -> Iterator[Step]:
        """Those that a version may not know yet, of partitions that have something else to say."""
        asked_of = {
            "what is absent": ("absent", -1),
            "a follower": ("offsets", -1),
            "a follower in an old epoch": ("offsets", EPOCH),
            "a leader": ("v-0", -1),
            "a leader in an old epoch": ("v-0", EPOCH - 1),
        }
        yield Step("led, and known to clients", 7, self.lead("v-0", leader_epoch=EPOCH + 1))
        for name, (topic, epoch) in asked_of.items():
            for timestamp, version in product((-3, -4, -5, -6), (0, 6, 7, 8, 9)):
                asked = ListOffsetsPartition(
                    partition_index=0, current_leader_epoch=epoch, timestamp=timestamp
                )
                request = ListOffsetsRequest(
                    replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
                )
                yield Step(f"{timestamp} in v{version} of {name}", version, request)

    # What clients see.

    def _metadata(self) -> Iterator[Step]:
        states = [
            self.shown("seen", 0),
            self.shown("seen", 3, leader=OTHER, offline_replicas=[OURS]),
            self.shown("seen", 1, leader=DEAD, isr=[DEAD], replicas=[DEAD, OURS]),
            self.shown("seen", 4, leader=ELSEWHERE, replicas=[ELSEWHERE, OURS], isr=[ELSEWHERE]),
            self.shown("seen", 6, leader=-1, isr=[OTHER], offline_replicas=[OURS, OTHER]),
            self.shown("seen", 7, isr=[OURS, DEAD], replicas=[OURS, DEAD]),
            self.shown("gone", 0),
            self.shown("gone", 1),
        ]
        yield Step("partitions in any order, with gaps", 8, self.update(*states))
        yield from self._seen("at first", "seen", "gone")
        removed = [self.shown("gone", 0, leader=-2), self.shown("seen", 3, leader=-2)]
        yield Step("partitions go", 8, self.update(*removed))
        yield from self._seen("some are gone", "seen", "gone")
        yield Step("the last one goes", 8, self.update(self.shown("gone", 1, leader=-2)))
        yield from self._seen("a topic is gone", "seen", "gone")
        alone = self.update()
        alone.live_brokers = alone.live_brokers[:1]
        alone.controller_id = DEAD
        yield Step("one broker is left", 8, alone)
        yield from self._seen("one broker is left", "seen")

    def _seen(self, name: str, *topics: str) -> Iterator[Step]:
        for version in (0, 1, 5, 6, 12):
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=topic) for topic in topics],
                allow_auto_topic_creation=version == 0,  # the broker forbids it
            )
            yield Step(f"{name}: Metadata v{version}", version, request)


def _broker(broker_id: int, listener: str, rack: str | None) -> UpdateMetadataBroker:
    endpoint = UpdateMetadataEndpoint(
        port=1, host="127.0.0.1", listener=listener, security_protocol=0
    )
    return UpdateMetadataBroker(id=broker_id, endpoints=[endpoint], rack=rack)


def told(response: Message, names: Mapping[bytes, str]) -> Any:
    """What is compared of an answer, as JSON."""
    if isinstance(response, LeaderAndIsrResponse):
        codes = [[e.topic_name, e.error_code] for e in response.partition_errors]
        codes += [
            [names.get(topic.topic_id, "?"), error.error_code]
            for topic in response.topics
            for error in topic.partition_errors
        ]
        return [response.error_code, *codes]
    if isinstance(response, StopReplicaResponse):
        stopped = [[e.topic_name, e.error_code] for e in response.partition_errors]
        return [response.error_code, *stopped]
    return _plain(response, names)


LEFT_OUT: Final = ("cluster_id", "throttle_time_ms")


def _plain(value: Any, names: Mapping[bytes, str]) -> Any:
    if isinstance(value, memoryview):
        return value.hex()
    if isinstance(value, bytes):
        return names.get(value, "" if value == ZERO_UUID else "?")
    if isinstance(value, list):
        plain = [_plain(element, names) for element in value]
        return sorted(plain, key=repr)
    if hasattr(value, "FIELDS"):
        fields = (field.name for field in value.FIELDS if field.name not in LEFT_OUT)
        return {name: _plain(getattr(value, name), names) for name in fields}
    return value
