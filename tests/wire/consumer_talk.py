"""Members of consumer groups (KIP-848) in a conversation, and what is asked around them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from odradek.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from tests.support.waiting import until
from tests.wire.group_talk import GroupTalk, Member

LEAVE: Final = -1
LEAVE_FOR_A_WHILE: Final = -2
GROUP_RESOURCE: Final = 32
SLOW_TIMEOUT_S: Final = 60.0

Owned = dict[bytes, list[int]]


class Consumer(Member):
    """A member of a consumer group; its id is its name. Remembers its epoch and assignment."""

    def __init__(
        self, talk: GroupTalk, name: str, stem: str = "g", *, instance: str | None = None
    ) -> None:
        super().__init__(talk, name, talk.group(stem), instance, 9)
        self.id = name
        self.epoch = 0
        self.assigned: Owned = {}
        talk.include(self)

    def request(self, **more: Any) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat that says only that it is there, and `more`."""
        fields: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
        }
        return ConsumerGroupHeartbeatRequest(**{**fields, **more})

    def first(self, *topics: str, **more: Any) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat with which it joins."""
        fields: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": list(topics),
            "topic_partitions": [],
        }
        return self.request(**{**fields, **more})

    def enter(self, label: str, *topics: str, **more: Any) -> Any:
        """Join and note the answer."""
        return self.ask(label, self.first(*topics, **more), 1)

    def beat(self, label: str, **more: Any) -> Any:
        """Send a heartbeat and note the answer."""
        return self.ask(label, self.request(**more), 1)

    def own(self, label: str, owned: Owned | None = None) -> Any:
        """Send a heartbeat that says what it owns: what it was assigned, or `owned`."""
        partitions = owning(self.assigned if owned is None else owned)
        return self.beat(label, topic_partitions=partitions)

    def beat_until(
        self, label: str, holds: Callable[[Any], bool], *, timeout_s: float = 30.0, **more: Any
    ) -> Any:
        """Send heartbeats until the answer is as wanted; note that one."""
        answers: list[Any] = []

        def arrived() -> bool:
            answers[:] = [self.exchange(self.request(**more), 1)]
            return holds(answers[0])

        until(arrived, timeout_s=timeout_s)
        self.talk.note(label, self.talk.plain(answers[0], 1))
        return answers[0]

    def quit(self, label: str, epoch: int = LEAVE) -> Any:
        """Leave and note the answer."""
        return self.beat(label, member_epoch=epoch)

    def _remember(self, answer: Any) -> None:
        super()._remember(answer)
        if getattr(answer, "error_code", 1) == 0 and hasattr(answer, "member_epoch"):
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {
                    topic.topic_id: list(topic.partitions)
                    for topic in answer.assignment.topic_partitions
                }


def is_given(answer: Any) -> bool:
    """Whether a heartbeat's answer brings partitions."""
    return answer.assignment is not None and bool(answer.assignment.topic_partitions)


def owning(owned: Owned) -> list[TopicPartitions]:
    """Partitions as heartbeats carry them."""
    return [TopicPartitions(topic_id=key, partitions=value) for key, value in owned.items()]


def seen_topic(talk: GroupTalk, stem: str = "t", partitions: int = 4) -> tuple[str, bytes]:
    """A topic that the coordinators know of; its name and id."""
    name, topic_id = talk.create_with_id(stem, partitions)
    for number in range(2):
        wait_until_seen(talk, stem, number, name, partitions)
    return name, topic_id


def wait_until_seen(talk: GroupTalk, stem: str, number: int, name: str, partitions: int) -> None:
    """Return when a coordinator would assign so many partitions of a topic."""
    probe = Consumer(talk, "probe")
    probe.group_id = f"probe {number} of {talk.group(stem)}"  # none of this conversation's

    def seen() -> bool:
        answer = probe.exchange(probe.first(name), 1)
        found = is_given(answer) and len(answer.assignment.topic_partitions[0].partitions)
        probe.exchange(probe.request(member_epoch=LEAVE), 1)
        return bool(found == partitions)

    until(seen)


def extend(talk: GroupTalk, name: str, partitions: int) -> None:
    """Add partitions to a topic."""
    topics = [CreatePartitionsTopic(name=name, count=partitions, assignments=None)]
    answer = talk.exchange(CreatePartitionsRequest(topics=topics, timeout_ms=10_000), 3)
    assert answer.results[0].error_code == 0, answer


def configure(talk: GroupTalk, stem: str, interval_ms: int, **configs: int) -> None:
    """Set a group's heartbeat interval and other settings, with '_' in their names for '.'.

    Kafka answers before its coordinators know of it: they are asked about another group, whose
    interval is set afterwards, until they tell it.
    """
    probe = Consumer(talk, "probe")
    probe.group_id = f"probe of {talk.group(stem)}"  # none of this conversation's
    interval = {"consumer_heartbeat_interval_ms": interval_ms}
    _alter_group(talk, talk.group(stem), {**interval, **configs})
    _alter_group(talk, probe.group_id, interval)

    def told() -> bool:
        answer = probe.exchange(probe.first(talk.topic("none")), 1)
        probe.exchange(probe.request(member_epoch=LEAVE), 1)
        return bool(answer.heartbeat_interval_ms == interval_ms)

    until(told)


def _alter_group(talk: GroupTalk, group_id: str, configs: Mapping[str, int]) -> None:
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE,
        resource_name=group_id,
        configs=[
            AlterableConfig(name=name.replace("_", "."), value=str(value))
            for name, value in configs.items()
        ],
    )
    answer = talk.exchange(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer


def note_described(talk: GroupTalk, label: str, *group_ids: str, version: int = 1) -> None:
    """Note what ConsumerGroupDescribe says."""
    answer = talk.exchange(ConsumerGroupDescribeRequest(group_ids=list(group_ids)), version)
    answer.groups.sort(key=lambda group: str(group.group_id))  # they come shard by shard
    talk.note(label, talk.plain(answer, version))
