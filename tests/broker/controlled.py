"""A broker whose controller is the test."""

from collections.abc import Iterable, Sequence
from typing import Final

from odradek.broker.core.partition_state import PartitionState, TopicPartition
from odradek.broker.member.control_messages import Sender
from odradek.broker.member.metadata import Address, BrokerInfo
from odradek.protocol.errors import ErrorCode

from .running import RunningBroker

SENDER: Final = Sender(9, 1000)
OTHER: Final = 1
TOPIC_ID: Final = bytes(range(16))
SETTINGS: Final = {"controlled.shutdown.enable": "false"}
"""Of a broker whose controller won't answer it."""


class Told:
    """What a replicator was told."""

    def __init__(self) -> None:
        self.changed: list[TopicPartition] = []
        self.gone: list[TopicPartition] = []
        self.brokers_changes = 0

    def roles_changed(self, keys: Iterable[TopicPartition]) -> None:
        """Whom to follow, or to lead."""
        self.changed += keys

    def stopped(self, keys: Iterable[TopicPartition]) -> None:
        """Not here any more."""
        self.gone += keys

    def brokers_changed(self) -> None:
        """Other brokers, or addresses."""
        self.brokers_changes += 1


async def take_control(broker: RunningBroker) -> Told:
    """Be the controller of a broker, which knows OTHER to be alive, and replicates nothing.

    The store knows of no topics; the broker believes that group offsets have one partition.
    """
    told, groups = Told(), broker.node.groups
    groups.topic._count, groups.topic._counted_id = 1, TOPIC_ID
    broker.node.control._replicator = told  # type: ignore[assignment]
    await update(broker)
    return told


def state(
    partition: int = 0,
    topic: str = "t",
    *,
    leader: int = 0,
    leader_epoch: int = 0,
    topic_id: bytes = TOPIC_ID,
    is_new: bool = True,
) -> PartitionState:
    """A partition of the broker and OTHER, both in sync."""
    return PartitionState(
        topic,
        topic_id,
        partition,
        leader,
        leader_epoch,
        isr=(0, OTHER),
        replicas=(0, OTHER),
        partition_epoch=leader_epoch,
        controller_epoch=SENDER.controller_epoch,
        is_new=is_new,
    )


async def lead(broker: RunningBroker, *states: PartitionState) -> list[ErrorCode]:
    """LeaderAndIsr; the codes in order."""
    codes = await broker.node.control.leader_and_isr(SENDER, states)
    return [codes[one.key] for one in states]


async def update(
    broker: RunningBroker, states: Sequence[PartitionState] = (), *, sender: Sender = SENDER
) -> None:
    """UpdateMetadata."""
    brokers = [
        BrokerInfo(0, None, {"PLAINTEXT": Address("127.0.0.1", broker.port)}),
        BrokerInfo(OTHER, None, {"PLAINTEXT": Address("127.0.0.1", 1)}),
    ]
    await broker.node.control.update_metadata(sender, brokers, states)
