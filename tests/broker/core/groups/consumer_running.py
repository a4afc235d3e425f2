"""A consumer group with topics, clocks and a log that tests hold in their hands."""

from collections.abc import Callable, Sequence
from typing import Any

from odradek.broker.core.effects import Answer, AppendRecords, Caller, Effect
from odradek.broker.core.groups.consumer import ConsumerGroup
from odradek.broker.core.groups.consumer_state import GroupState
from odradek.broker.core.groups.group import TopicImage
from odradek.broker.core.groups.settings import ConsumerSettings
from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord, decode_record, encode_record
from odradek.protocol.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

GROUP = "g"
WALL_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000

Owned = dict[str, list[int]]


class Topics:
    """The cluster's topics, to be changed by tests."""

    def __init__(self, **counts: int) -> None:
        self.version = 1
        self._images: dict[str, TopicImage] = {}
        self._names: dict[bytes, str] = {}
        for name, count in counts.items():
            self.create(name, count)

    def create(self, name: str, count: int) -> None:
        self.version += 1
        image = TopicImage(b"%-10.10s%6d" % (name.encode(), self.version), count)
        self._images[name] = image
        self._names[image.topic_id] = name

    def extend(self, name: str, count: int) -> None:
        self.version += 1
        self._images[name] = self._images[name]._replace(partition_count=count)

    def delete(self, name: str) -> None:
        self.version += 1
        del self._names[self._images.pop(name).topic_id]

    def get(self, name: str) -> TopicImage | None:
        return self._images.get(name)

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def names(self) -> Sequence[str]:
        return list(self._images)


class Running:
    """A group whose records are in the log at once, unless `refuse` says otherwise."""

    def __init__(self, topics: Topics | None = None, **settings: Any) -> None:
        self.topics = topics or Topics(t4=4, u2=2)
        self.settings = ConsumerSettings(**{"assignment_interval_ms": 0, **settings})
        self.now_ms = 0
        self.wall_ms = WALL_MS
        self.log: list[GroupRecord] = []
        self.refuse = ErrorCode.NONE
        self.hidden: set[str] = set()
        """The topics that the callers may not describe."""
        self.group = self._made()

    def _made(self) -> ConsumerGroup:
        return ConsumerGroup(GROUP, lambda: self.settings, self.topics, lambda: "made")

    def pass_time(self, ms: int) -> None:
        """Let both clocks go on, and the group do what is due."""
        self.now_ms += ms
        self.wall_ms += ms
        wake_ms = self.group.wake_ms
        if wake_ms is not None and wake_ms <= self.now_ms:
            self.run(self.group.on_time(self.now_ms, self.wall_ms))

    def run(self, effects: Sequence[Effect]) -> list[ConsumerGroupHeartbeatResponse]:
        """Do what is to be done; returns the answers."""
        answers: list[ConsumerGroupHeartbeatResponse] = []
        for effect in effects:
            if isinstance(effect, Answer):
                assert isinstance(effect.response, ConsumerGroupHeartbeatResponse)
                answers.append(effect.response)
                continue
            assert isinstance(effect, AppendRecords)
            if self.refuse == ErrorCode.NONE:
                self.log += effect.records
                if effect.appended is not None:
                    effect.appended()
            answers += self.run(effect.then(self.refuse))
        return answers

    def send(
        self, member_id: str, epoch: int, owned: Owned | None = None, version: int = 1, **said: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat and its answer."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=said.pop("group_id", GROUP), member_id=member_id, member_epoch=epoch, **said
        )
        if owned is not None:
            request.topic_partitions = [
                TopicPartitions(topic_id=self.id_of(topic), partitions=partitions)
                for topic, partitions in owned.items()
            ]
        caller = Caller("app", "/127.0.0.1", version, lambda name: name not in self.hidden)
        (answer,) = self.run(
            self.group.heartbeat(request, caller, object(), self.now_ms, self.wall_ms)
        )
        return answer

    def join(
        self, member_id: str, *names: str, timeout_ms: int = TIMEOUT_MS, **said: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """Join with topic names, t4 if there are none and no pattern."""
        if not names and "subscribed_topic_regex" not in said:
            names = ("t4",)
        if names:
            said["subscribed_topic_names"] = list(names)
        return self.send(member_id, 0, {}, rebalance_timeout_ms=timeout_ms, **said)

    def code(self, answer: ConsumerGroupHeartbeatResponse) -> ErrorCode:
        return ErrorCode(answer.error_code)

    def id_of(self, topic: str) -> bytes:
        image = self.topics.get(topic)
        return b"?" * 16 if image is None else image.topic_id

    def told(self, answer: ConsumerGroupHeartbeatResponse) -> Owned | None:
        """The assignment of an answer, by names."""
        assert answer.error_code == ErrorCode.NONE, answer
        if answer.assignment is None:
            return None
        return {
            self.topics.name_of(topic.topic_id) or "?": list(topic.partitions)
            for topic in answer.assignment.topic_partitions
        }

    def reload(self, *, log: Sequence[GroupRecord] | None = None) -> ConsumerGroup:
        """Another broker takes over with what is in the log, as bytes."""
        self.group = self._made()
        for record in self.log if log is None else log:
            read = decode_record(*encode_record(record))
            assert read is not None
            self.group.apply(read)
        self.group.loaded(self.now_ms)
        return self.group

    def kinds(self, act: Callable[[], object]) -> list[str]:
        """The kinds of the records that an act writes; a tombstone with a minus."""
        before = len(self.log)
        act()
        return [
            ("-" if record.value is None else "")
            + type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
            for record in self.log[before:]
        ]


def contents(state: GroupState) -> dict[str, object]:
    """All of a state, to be compared."""
    return {name: getattr(state, name) for name in GroupState.__slots__}
