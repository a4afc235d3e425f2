"""Moving leadership: of one partition to a chosen broker, or of all to other ones.

The broker that leads a partition of an internal topic is the coordinator of groups or of
transactional ids, so a coordinator moves in the same way.

As an administrator would do it with Kafka's tools: the chosen broker becomes the first replica of
the partition, which is its preferred leader, and then the preferred leader is elected. The replicas
stay the same, only their order changes.
"""

from collections.abc import Mapping
from typing import Any, Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.primitives import INT32_MAX

from ..core.elections import ElectionType
from ..core.partition_state import PartitionState, TopicPartition, by_topic
from ..core.topic_names import INTERNAL_TOPICS
from ..node import Node
from . import schemas
from .asking import (
    TIMEOUT_MS,
    any_node,
    ask_controller,
    check,
    partition_in,
    state_of,
    states_of,
    wait_for_all,
)
from .controls import Controls
from .fields import TEXT, Field, Json, nullable, whole
from .groups import OF, coordinator_topic
from .problems import Problem

REASSIGN_VERSION: Final = 0
ELECT_VERSION: Final = 2
LEADER: Final = schemas.members(
    topic=schemas.STRING, partition=schemas.INTEGER, leader=schemas.INTEGER
)
LEADERS: Final = schemas.members(leaders=schemas.array(LEADER))
TO: Final = Field(
    "to",
    nullable(whole(0, INT32_MAX)),
    "The broker that is to lead, one in sync; default: the next one in sync.",
    None,
)
MOVE: Final = (TO,)
MOVE_COORDINATOR: Final = (TO, OF)
SHUFFLE: Final = (
    Field("topic", nullable(TEXT), "Only of this topic; default: of all but internal ones.", None),
)


async def move(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Make another broker the leader of a partition; return once all brokers know it."""
    state = state_of(controls, path["topic"], partition_in(path))
    leader = await _move(controls, state, fields["to"])
    return {"topic": state.topic, "partition": state.partition, "leader": leader}


async def move_coordinator(
    controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]
) -> Json:
    """Make another broker the coordinator of a group or of a transactional id.

    It becomes the leader of the partition that has the group, and all other groups in it move, too.
    """
    topic = coordinator_topic(any_node(controls), fields["of"])
    try:
        partition = await topic.find_partition(path["id"])
    except Refused as refused:
        raise Problem(409, str(refused)) from refused
    state = state_of(controls, topic.name, partition)
    return {"coordinator": await _move(controls, state, fields["to"])}


async def _move(controls: Controls, state: PartitionState, to: int | None) -> int:
    """Make `to`, or the next broker in sync, the leader; return it.  Raises: Problem."""
    others = [replica for replica in state.isr if replica != state.leader]
    if to is None and not others:
        raise Problem(409, f"{_name(state)} has no other broker in sync than {state.leader}")
    to = others[0] if to is None else to
    if to not in state.isr:
        listed = ", ".join(map(str, state.isr))
        raise Problem(409, f"broker {to} is not in sync with {_name(state)}: those are {listed}")
    await _lead(controls, {state.key: state}, {state.key: to})
    return to


async def shuffle(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Move the leadership of every partition to another broker in sync, by chance."""
    names = [fields["topic"]]
    if fields["topic"] is None:
        names = [name for name in any_node(controls).metadata.topics if name not in INTERNAL_TOPICS]
    states = {state.key: state for name in names for state in states_of(controls, name)}
    leaders = {}
    for key, state in sorted(states.items()):
        if others := [replica for replica in state.isr if replica != state.leader]:
            leaders[key] = controls.runtime.random.choice(others)
    if leaders:
        await _lead(controls, states, leaders)
    return {
        "leaders": [
            {"topic": topic, "partition": partition, "leader": leader}
            for (topic, partition), leader in leaders.items()
        ]
    }


async def _lead(
    controls: Controls,
    states: Mapping[TopicPartition, PartitionState],
    leaders: Mapping[TopicPartition, int],
) -> None:
    """Make each partition's leader the broker in `leaders`.  Raises: Problem."""
    from odradek.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions

    replicas = {
        key: [leader, *(each for each in states[key].replicas if each != leader)]
        for key, leader in leaders.items()
    }
    await _reorder(controls, replicas)
    request = ElectLeadersRequest(
        election_type=ElectionType.PREFERRED,
        topic_partitions=[
            TopicPartitions(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(leaders).items()
        ],
        timeout_ms=TIMEOUT_MS,
    )
    answer = await ask_controller(controls, request, ELECT_VERSION)
    check(answer.error_code, None, "electing leaders")
    for topic in answer.replica_election_results:
        for result in topic.partition_result:
            if result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                name = f"{topic.topic}-{result.partition_id}"
                check(result.error_code, result.error_message, name)

    def lead(node: Node) -> bool:
        known = ((node.metadata.partition(*key), leader) for key, leader in leaders.items())
        return all(state is None or state.leader == leader for state, leader in known)

    await wait_for_all(controls, lead, "the election of the leaders")


async def _reorder(controls: Controls, replicas: Mapping[TopicPartition, list[int]]) -> None:
    """Give partitions their replicas in this order; return once that is done.  Raises: Problem."""
    from odradek.protocol.messages.k45_alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(partition_index=each, replicas=replicas[topic, each])
                    for each in partitions
                ],
            )
            for topic, partitions in by_topic(replicas).items()
        ],
    )
    answer = await ask_controller(controls, request, REASSIGN_VERSION)
    check(answer.error_code, answer.error_message, "reordering replicas")
    for topic in answer.responses:
        for result in topic.partitions:
            name = f"{topic.name}-{result.partition_index}"
            check(result.error_code, result.error_message, name)

    def is_reordered(node: Node) -> bool:
        known = ((node.metadata.partition(*key), wanted) for key, wanted in replicas.items())
        return all(state is None or list(state.replicas) == wanted for state, wanted in known)

    await wait_for_all(controls, is_reordered, "the new order of the replicas")


def _name(state: PartitionState) -> str:
    return f"{state.topic}-{state.partition}"
