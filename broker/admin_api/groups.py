"""Groups: their state, members and committed offsets, and which broker coordinates them."""

from collections.abc import Mapping
from typing import Any, Final

from odradek.protocol.errors import ErrorCode, Refused

from ..coordinators.internal_topic import InternalTopic
from ..core.partition_state import NO_LEADER
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

    async def look(watch: Watch) -> Json:
        watch_groups(watch, controls)
        for broker in controls.brokers.values():
            if broker.node.groups.is_loading:
                raise NotYet(f"broker {broker.node.broker_id} is loading groups")
        return {"groups": [found async for found, _ in _listed(controls)]}

    return await wait_until(look, LOADING_S_MAX)


async def show(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Show a group with its members and committed offsets, once its coordinator has loaded it."""

    async def look(watch: Watch) -> Json | None:
        watch_groups(watch, controls)
        return await find(controls, path["group"])

    found = await wait_until(look, LOADING_S_MAX)
    if found is None:
        raise unknown(path["group"])
    return found


async def find(controls: Controls, group_id: str) -> Json | None:
    """A group with its members and committed offsets, if there is one.

    Raises: NotYet while no broker has it, and one may have it soon; Problem, Refused.
    """
    async for found, node in _listed(controls):
        if found["group_id"] == group_id:
            members = await _members(found, node)
            offsets = await _offsets(controls, group_id, node)
            return {**found, "members": members, "offsets": offsets}
    await _check_coordinator(controls, group_id)
    return None


async def _check_coordinator(controls: Controls, group_id: str) -> None:
    """Check that a group that nobody has does not exist, unless another process has it.

    Raises: NotYet, Refused.
    """
    try:
        node = any_node(controls)
    except Problem:  # every broker is down or paused
        return
    if GROUP_OFFSETS_TOPIC not in node.metadata.topics:
        return
    number = await node.groups.topic.find_partition(group_id)
    state = node.metadata.partition(GROUP_OFFSETS_TOPIC, number)
    leader = NO_LEADER if state is None else state.leader
    about = f"group {group_id[:250]!a}"
    if leader == NO_LEADER:
        raise NotYet(f"{about} has no coordinator")
    if leader not in controls.broker_ids:
        return
    broker = controls.brokers.get(leader)
    if broker is None:
        raise NotYet(f"broker {leader}, which coordinates {about}, is down")
    if not broker.node.groups.has_loaded(number):
        raise NotYet(f"broker {leader} is loading {about}")


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


async def _listed(controls: Controls) -> Any:
    """Each group with the broker that coordinates it, except those that are being loaded."""
    from odradek.protocol.messages.k16_list_groups import ListGroupsRequest

    for broker in list(controls.brokers.values()):
        node = broker.node
        answer: Any = await ask_self(node, ListGroupsRequest(), LIST_VERSION)
        for group in answer.groups:
            found = {
                "group_id": group.group_id,
                "type": group.group_type,
                "state": group.group_state,
                "protocol_type": group.protocol_type,
                "coordinator": node.broker_id,
            }
            yield found, node


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
