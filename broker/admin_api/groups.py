"""Groups: their state, members and committed offsets, and which broker coordinates them."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from odradek.protocol.errors import ErrorCode, Refused

from ..coordinators.internal_topic import InternalTopic
from ..core.partition_state import NO_LEADER, PartitionState
from ..core.topic_names import GROUP_OFFSETS_TOPIC
from ..node import Node
from ..peers.own import ask_self
from . import schemas
from .asking import any_node, check
from .controls import Controls
from .fields import Field, Json, one_of
from .problems import Problem, not_found
from .views import classic_member, committed_offset, consumer_member
from .watching import NotYet, Watch, wait_until, watch_groups

LIST_VERSION: Final = 5
OFFSETS_VERSION: Final = 9
CLASSIC_VERSION: Final = 5
CONSUMER_VERSION: Final = 1
CONSUMER: Final = "consumer"
LOADING_S_MAX: Final = 5.0
COUNTING_S_MAX: Final = 1.0
_PASSING: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""The codes of a group that is moving to another broker."""

LISTED: Final = {
    "group_id": schemas.STRING,
    "type": schemas.STRING,
    "state": schemas.STRING,
    "protocol_type": schemas.STRING,
    "coordinator": schemas.INTEGER,
}
GROUPS: Final = schemas.members(groups=schemas.array(schemas.members(**LISTED)))
MEMBER: Final = schemas.members(
    member_id=schemas.STRING,
    instance_id=schemas.either(schemas.STRING, schemas.NULL),
    client_id=schemas.STRING,
    host=schemas.STRING,
    assignment=schemas.mapping(schemas.array(schemas.INTEGER)),
)
OFFSET: Final = schemas.members(
    topic=schemas.STRING,
    partition=schemas.INTEGER,
    offset=schemas.INTEGER,
    metadata=schemas.either(schemas.STRING, schemas.NULL),
    lag=schemas.either(schemas.INTEGER, schemas.NULL),
)
GROUP: Final = schemas.members(
    **LISTED, members=schemas.array(MEMBER), offsets=schemas.array(OFFSET)
)
COORDINATOR: Final = schemas.members(coordinator=schemas.INTEGER)
OF: Final = Field("of", one_of("group", "transaction"), "What the id in the path is.", "group")
SHOW_COORDINATOR: Final = (OF,)


async def show_all(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """List the groups that the brokers of this process coordinate, once these have loaded them."""
    _teller(controls)

    async def look(watch: Watch) -> Json:
        watch_groups(watch, controls)
        teller = _teller(controls)
        groups = []
        for broker in controls.brokers.values():
            if broker.node.groups.is_loading:
                raise NotYet(f"broker {broker.node.broker_id} is loading groups")
            groups += [
                found
                for found in await _listed(broker.node)
                if _coordinates(broker.node, found["group_id"], teller)
            ]
        return {"groups": groups}

    return await wait_until(look, LOADING_S_MAX)


async def show(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Show a group with its members and committed offsets, once its coordinator has loaded it."""
    _teller(controls)

    async def look(watch: Watch) -> Json | None:
        watch_groups(watch, controls)
        return await find(controls, path["group"])

    found = await wait_until(look, LOADING_S_MAX)
    if found is None:
        raise unknown(path["group"])
    return found


async def find(controls: Controls, group_id: str) -> Json | None:
    """A group with its members and committed offsets, if there is one.

    Raises: NotYet while its coordinator changes, loads it or is down; Problem (421) if that is in
    another process; Refused.
    """
    teller = _teller(controls)
    if GROUP_OFFSETS_TOPIC not in teller.metadata.topics:
        return None
    number = await _partition_of(group_id, teller)
    node = _coordinator(controls, group_id, teller.metadata.partition(GROUP_OFFSETS_TOPIC, number))
    if not node.groups.has_loaded(number):
        raise NotYet(f"broker {node.broker_id} is loading group {group_id[:250]!a}")
    for found in await _listed(node):
        if found["group_id"] == group_id:
            members = await _members(found, node)
            offsets = await _offsets(controls, group_id, node)
            return {**found, "members": members, "offsets": offsets}
    return None


def _teller(controls: Controls) -> Node:
    """A broker that knows who coordinates what: one that is not paused, if there is one.

    Raises: Problem if none runs.
    """
    try:
        return any_node(controls)
    except Problem:
        if not controls.brokers:
            raise
        return next(iter(controls.brokers.values())).node


async def _partition_of(group_id: str, teller: Node) -> int:
    """The partition that has a group.  Raises: NotYet, Refused."""
    number = teller.groups.topic.partition_of(group_id)
    if number is not None:
        return number
    try:
        async with asyncio.timeout(COUNTING_S_MAX):
            return await teller.groups.topic.find_partition(group_id)
    except TimeoutError:
        raise NotYet("the store does not tell how many partitions groups have") from None


def _coordinator(controls: Controls, group_id: str, state: PartitionState | None) -> Node:
    """The broker that leads a group's partition.  Raises: NotYet, Problem."""
    about = f"group {group_id[:250]!a}"
    if state is None or state.leader == NO_LEADER:
        raise NotYet(f"{about} has no coordinator")
    if state.leader not in controls.broker_ids:
        where = f"broker {state.leader}, which coordinates {about}, is not in this process"
        raise Problem(421, where)
    broker = controls.brokers.get(state.leader)
    if broker is None:
        raise NotYet(f"broker {state.leader}, which coordinates {about}, is down")
    return broker.node


def _coordinates(node: Node, group_id: str, teller: Node) -> bool:
    """Whether a broker still coordinates a group that it has: it may have been paused."""
    number = teller.groups.topic.partition_of(group_id)
    state = None if number is None else teller.metadata.partition(GROUP_OFFSETS_TOPIC, number)
    return state is None or state.leader == node.broker_id


def unknown(group_id: str) -> Problem:
    """The problem that there is no such group."""
    return not_found(f"group {group_id[:250]!a}")


async def show_coordinator(
    controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]
) -> Json:
    """Tell which broker coordinates a group, or a transactional id."""
    topic = coordinator_topic(any_node(controls), fields["of"])
    try:
        broker = await topic.coordinator_of(path["id"])
    except Refused as refused:
        raise Problem(409, str(refused)) from refused
    return {"coordinator": broker.broker_id}


def coordinator_topic(node: Node, of: str) -> InternalTopic:
    """The topic whose leaders coordinate groups, or transactional ids."""
    return node.transactions.topic if of == "transaction" else node.groups.topic


async def _listed(node: Node) -> list[dict[str, Any]]:
    """The groups that a broker has loaded."""
    from odradek.protocol.messages.k16_list_groups import ListGroupsRequest

    answer: Any = await ask_self(node, ListGroupsRequest(), LIST_VERSION)
    return [
        {
            "group_id": group.group_id,
            "type": group.group_type,
            "state": group.group_state,
            "protocol_type": group.protocol_type,
            "coordinator": node.broker_id,
        }
        for group in answer.groups
    ]


def _check(code: int, about: str) -> None:
    """Raises: NotYet, Problem."""
    if code in _PASSING:
        raise NotYet(f"{about}: {ErrorCode(code).name}")
    check(code, None, about)


async def _members(found: Mapping[str, Any], node: Node) -> list[Json]:
    from odradek.protocol.messages.k15_describe_groups import DescribeGroupsRequest
    from odradek.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest

    group_id = found["group_id"]
    is_consumer = found["type"] == CONSUMER
    if is_consumer:
        request = ConsumerGroupDescribeRequest(group_ids=[group_id])
        answer: Any = await ask_self(node, request, CONSUMER_VERSION)
    else:
        answer = await ask_self(node, DescribeGroupsRequest(groups=[group_id]), CLASSIC_VERSION)
    (group,) = answer.groups
    _check(group.error_code, f"group {group_id}")
    view = consumer_member if is_consumer else classic_member
    return [view(member) for member in group.members]


async def _offsets(controls: Controls, group_id: str, node: Node) -> list[Json]:
    from odradek.protocol.messages.k09_offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
    )

    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    answer: Any = await ask_self(node, request, OFFSETS_VERSION)
    (group,) = answer.groups
    _check(group.error_code, f"group {group_id}")
    return [
        committed_offset(topic.name, each, _end_offset(controls, topic.name, each.partition_index))
        for topic in group.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE and each.committed_offset >= 0
    ]


def _end_offset(controls: Controls, topic: str, partition: int) -> int | None:
    """The high watermark, if the leader is here."""
    for broker in controls.brokers.values():
        replica = broker.node.replicas.partitions.get((topic, partition))
        if replica is not None and replica.is_leader:
            return replica.log.high_watermark
    return None
