"""Topics: creating, listing, deleting.

Messages are imported by the first request that needs them: a fixture starts sooner.
"""

from collections.abc import Mapping
from typing import Any, Final

from ..core.partition_state import NO_LEADER, PartitionState
from ..core.topic_names import INTERNAL_TOPICS
from ..member.metadata import TopicInfo
from . import schemas
from .asking import TIMEOUT_MS, any_node, ask_controller, check, topic_of, wait_for_all
from .controls import Controls
from .fields import BOOLEAN, TEXT, Field, Json, either, map_of, number, whole

CREATE_VERSION: Final = 7
DELETE_VERSION: Final = 6
PARTITION: Final = schemas.members(
    partition=schemas.INTEGER,
    leader=schemas.INTEGER,
    leader_epoch=schemas.INTEGER,
    replicas=schemas.array(schemas.INTEGER),
    isr=schemas.array(schemas.INTEGER),
)
TOPIC: Final = schemas.members(name=schemas.STRING, partitions=schemas.array(PARTITION))
TOPICS: Final = schemas.members(topics=schemas.array(TOPIC))
CREATE: Final = (
    Field("name", TEXT, "Its name."),
    Field("partitions", whole(1, 10_000), "How many; default: num.partitions.", -1),
    Field(
        "replication_factor",
        whole(1, 1000),
        "Replicas of each partition; default: default.replication.factor.",
        -1,
    ),
    Field(
        "configs",
        map_of(either(TEXT, either(BOOLEAN, number(-(2**63), 2**63))), at_most=100),
        "Its settings.",
        {},
    ),
)
LIST: Final = (Field("internal", BOOLEAN, "Whether to list internal topics, too.", False),)


def show_all(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """List the topics with their partitions."""
    topics = any_node(controls).metadata.topics
    names = [name for name in sorted(topics) if fields["internal"] or name not in INTERNAL_TOPICS]
    return {"topics": [_topic(topics[name]) for name in names]}


def show(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Show a topic with its partitions."""
    return _topic(topic_of(controls, path["topic"]))


async def create(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Create a topic; return once all brokers know its leaders."""
    from odradek.protocol.messages.k19_create_topics import (
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    name = fields["name"]
    asked = CreatableTopic(
        name=name,
        num_partitions=fields["partitions"],
        replication_factor=fields["replication_factor"],
        configs=[
            CreatableTopicConfig(name=key, value=_setting(value))
            for key, value in fields["configs"].items()
        ],
    )
    request = CreateTopicsRequest(topics=[asked], timeout_ms=TIMEOUT_MS)
    (result,) = (await ask_controller(controls, request, CREATE_VERSION)).topics
    check(result.error_code, result.error_message, f"topic {name[:250]!a}")
    count = result.num_partitions
    await wait_for_all(
        controls,
        lambda node: led_count(node.metadata.topics.get(name)) >= count,
        f"an election of leaders for {name}",
    )
    return _topic(topic_of(controls, name))


async def delete(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Delete a topic; return once no broker knows it."""
    from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState

    info = topic_of(controls, path["topic"])
    topic_id = info.topic_id
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=info.name)], timeout_ms=TIMEOUT_MS)
    (result,) = (await ask_controller(controls, request, DELETE_VERSION)).responses
    check(result.error_code, result.error_message, f"topic {info.name}")
    await wait_for_all(
        controls,
        lambda node: node.metadata.topic_name(topic_id) is None,
        f"the deletion of {info.name}",
    )
    return {}


def led_count(info: TopicInfo | None) -> int:
    """How many partitions have a leader."""
    if info is None:
        return 0
    return sum(state.leader != NO_LEADER for state in info.partitions)


def _topic(info: TopicInfo) -> Json:
    return {"name": info.name, "partitions": [_partition(state) for state in info.partitions]}


def _partition(state: PartitionState) -> Json:
    return {
        "partition": state.partition,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "replicas": list(state.replicas),
        "isr": list(state.isr),
    }


def _setting(value: str | bool | float) -> str:
    """The text of a setting, as in server.properties."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    return value
