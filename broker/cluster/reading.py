"""Reads the controller's znodes and turns them into the values that its procedures take.

Any client may have written these znodes. Those that cannot be used are logged with their path and
left out.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, TypeVar

from odradek.protocol.errors import Refused
from odradek.protocol.primitives import ZERO_UUID, uuid_text

from ..coordination import znodes
from ..coordination.interface import NoNode, Session, Stat, Watch
from ..coordination.json_fields import INT32_MAX, MalformedZnode, number
from ..core.controller.context import Endpoint, LiveBroker, TopicNode
from ..core.controller.effects import ReplicaAssignment, StoredState
from ..core.partition_state import NO_LEADER, REPLICAS_MAX, TopicPartition
from ..core.topic_names import check_topic_name
from .store_calls import map_concurrently, until_connected

logger = logging.getLogger(__name__)

TOPIC_ID_BYTES: Final = 16
RECOVERY_STATES: Final = (0, 1)

T = TypeVar("T")


class StoredTopic(NamedTuple):
    """A topic's znode and its version."""

    name: str
    node: znodes.TopicAssignment
    version: int

    def as_node(self, topic_id: bytes) -> TopicNode:
        """Convert to the type that procedures take."""
        adding, removing = self.node.adding_replicas, self.node.removing_replicas
        partitions = {
            partition: ReplicaAssignment(
                replicas, adding.get(partition, ()), removing.get(partition, ())
            )
            for partition, replicas in self.node.partitions.items()
        }
        return TopicNode(topic_id, partitions)


class Broken(NamedTuple):
    """A znode that cannot be used, and why."""

    path: str
    reason: str


def new_topic_id(randbytes: Callable[[int], bytes]) -> bytes:
    """A random id that is not reserved, and whose text form does not look like an option."""
    while True:
        topic_id = randbytes(TOPIC_ID_BYTES)
        if topic_id[:15] != ZERO_UUID[:15] and not uuid_text(topic_id).startswith("-"):
            return topic_id


async def get(session: Session, path: str, watch: Watch | None = None) -> tuple[bytes, Stat] | None:
    """The data and stat of a znode; None if it does not exist."""
    try:
        return await until_connected(lambda: session.get(path, watch))
    except NoNode:
        return None


async def children(session: Session, path: str, watch: Watch | None = None) -> list[str]:
    """The names of a znode's children; empty if the znode does not exist."""
    try:
        return await until_connected(lambda: session.children(path, watch))
    except NoNode:
        return []


# --- brokers


async def read_brokers(
    session: Session, on_children: Watch, on_data: Watch
) -> dict[int, LiveBroker]:
    """The registered brokers, by id."""

    async def read(name: str) -> LiveBroker | None:
        path = f"{znodes.BROKER_IDS}/{name}"
        found = await get(session, path, on_data)
        if found is None:
            return None
        data, stat = found
        try:
            return _live_broker(name, znodes.BrokerRegistration.decode(data), stat.czxid)
        except MalformedZnode as error:
            logger.error("broker ignored path=%s error=%s", path, error)
            return None

    names = await children(session, znodes.BROKER_IDS, on_children)
    brokers = await map_concurrently(read, names)
    return {broker.broker_id: broker for broker in brokers if broker is not None}


def _live_broker(name: str, node: znodes.BrokerRegistration, epoch: int) -> LiveBroker:
    broker_id = number(name, "broker id")
    endpoints = tuple(Endpoint(*endpoint) for endpoint in node.endpoints)
    return LiveBroker(broker_id, epoch, endpoints, node.rack)


# --- topics


async def read_topics(
    session: Session, names: Collection[str], on_data: Watch
) -> dict[str, StoredTopic | Broken | None]:
    """Read the topics' znodes; None: there is no such znode, or no longer."""

    async def read(name: str) -> StoredTopic | Broken | None:
        path = znodes.topic_path(name)
        found = await get(session, path, on_data)
        if found is None:
            return None
        data, stat = found
        try:
            check_topic_name(name)
            node = znodes.TopicAssignment.decode(data)
            _check_assignment(node)
        except (MalformedZnode, Refused) as error:
            return Broken(path, str(error))
        return StoredTopic(name, node, stat.version)

    names = list(names)
    return dict(zip(names, await map_concurrently(read, names), strict=True))


def _check_assignment(node: znodes.TopicAssignment) -> None:
    for partition, replicas in node.partitions.items():
        if partition < 0:
            raise MalformedZnode(f"there is a partition {partition}")
        is_sound = len(set(replicas)) == len(replicas) <= REPLICAS_MAX
        if not replicas or not is_sound or min(replicas) < 0:
            raise MalformedZnode(f"partition {partition} has replicas {list(replicas)[:100]}")


# --- states


async def read_states(
    session: Session, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, StoredState | Broken]:
    """Read the partitions' state znodes; partitions without one are left out."""

    async def read(key: TopicPartition) -> StoredState | Broken | None:
        path = znodes.partition_state_path(*key)
        found = await get(session, path)
        if found is None:
            return None
        try:
            return stored_state(*found)
        except MalformedZnode as error:
            return Broken(path, str(error))

    states = await map_concurrently(read, partitions)
    return {key: state for key, state in zip(partitions, states, strict=True) if state is not None}


def stored_state(data: bytes, stat: Stat) -> StoredState:
    """Decode and check a state znode.  Raises: MalformedZnode."""
    node = znodes.PartitionStateNode.decode(data)
    if node.leader_recovery_state not in RECOVERY_STATES:
        raise MalformedZnode(f"leader_recovery_state is {node.leader_recovery_state}")
    if not 0 <= node.leader_epoch < INT32_MAX:  # a greater one must exist
        raise MalformedZnode(f"leader_epoch is {node.leader_epoch}")
    if node.leader < NO_LEADER or min(node.isr, default=0) < 0 or len(node.isr) > REPLICAS_MAX:
        raise MalformedZnode(f"leader is {node.leader} and isr {list(node.isr)[:100]}")
    return StoredState(
        node.leader,
        node.leader_epoch,
        node.isr,
        node.controller_epoch,
        stat.version,
        bool(node.leader_recovery_state),
    )


# --- requests of tools and brokers


async def read_notifications(
    session: Session, parent: str, watch: Watch, decode: Callable[[bytes], T]
) -> tuple[list[str], list[T]]:
    """Read the sequential znodes below `parent`: all paths, and the values that can be decoded."""
    paths = [f"{parent}/{name}" for name in await children(session, parent, watch)]
    found = await map_concurrently(lambda path: get(session, path), paths)
    values = []
    for path, node in zip(paths, found, strict=True):
        try:
            if node is not None:
                values.append(decode(node[0]))
        except MalformedZnode as error:
            logger.error("notification ignored path=%s error=%s", path, error)
    return paths, values


async def read_request(
    session: Session, path: str, watch: Watch, decode: Callable[[bytes], T], nothing: T
) -> T | None:
    """Decode the request in a znode that a tool has created.

    Returns `nothing` if it cannot be decoded, None if there is no znode.
    """
    if await until_connected(lambda: session.exists(path, watch)) is None:
        return None
    found = await get(session, path)
    if found is None:
        return None
    try:
        return decode(found[0])
    except MalformedZnode as error:
        logger.error("request ignored path=%s error=%s", path, error)
        return nothing
