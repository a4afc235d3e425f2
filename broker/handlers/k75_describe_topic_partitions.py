"""DescribeTopicPartitions 0: topics' partitions, in order of topic name, in pages (KIP-966)."""

from collections.abc import Sequence

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)

from ..core.acls.terms import Operation, ResourceType
from ..core.authorized_operations import ALL_ON_TOPIC
from ..core.partition_state import NO_LEADER, PartitionState
from ..core.topic_names import is_internal, is_topic_name
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split


async def handle(
    request: DescribeTopicPartitionsRequest, call: Call, node: Node
) -> DescribeTopicPartitionsResponse:
    """Return one page from the cursor on; an empty list of topics means all."""
    await node.metadata.wait_for_first_word()
    response = DescribeTopicPartitionsResponse()
    left = max(1, min(request.response_partition_limit, node.partitions_per_page_max))
    asks_for_all = not request.topics
    names = set(node.metadata.topics if asks_for_all else (t.name for t in request.topics))
    cursor = request.cursor
    if cursor is not None and (
        cursor.partition_index < 0 or not (asks_for_all or cursor.topic_name in names)
    ):
        response.topics = [_refused(name, ErrorCode.INVALID_REQUEST) for name in sorted(names)]
        return response
    for name in sorted(names):
        if cursor is not None and name < cursor.topic_name:
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic, partitions = _topic(name, node)
        topic.partitions = [
            _partition(state, call, node) for state in partitions[first : first + left]
        ]
        response.topics.append(topic)
        left -= len(topic.partitions)
        if first + len(topic.partitions) < len(partitions):
            response.next_cursor = Cursor(
                topic_name=name, partition_index=first + len(topic.partitions)
            )
            break
    return response


async def guarded(
    request: DescribeTopicPartitionsRequest, call: Call, node: Node, rights: Rights
) -> DescribeTopicPartitionsResponse:
    """Describe the topics that the client may describe; of all, the others are not named."""
    await node.metadata.wait_for_first_word()
    refused: list[TopicRequest] = []
    if request.topics:
        request.topics, refused = split(
            request.topics, lambda topic: rights.topic(Operation.DESCRIBE, topic.name)
        )
    else:
        _name_all(request, node, rights)
    response = DescribeTopicPartitionsResponse()
    if request.topics:
        response = await handle(request, call, node)
        for topic in response.topics:
            if topic.name is not None and topic.error_code != ErrorCode.INVALID_REQUEST:
                operations = rights.operations(ResourceType.TOPIC, topic.name)
                topic.topic_authorized_operations = operations
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    response.topics += [_refused(name, code) for name in sorted({t.name for t in refused})]
    return response


def _name_all(request: DescribeTopicPartitionsRequest, node: Node, rights: Rights) -> None:
    """Replace the request for all topics by one for those that may be described."""
    first = "" if request.cursor is None else request.cursor.topic_name
    names = [
        name
        for name in node.metadata.topics
        if name >= first and rights.topic(Operation.DESCRIBE, name, quietly=True)
    ]
    if first not in names:  # it may have been deleted meanwhile
        request.cursor = None
    request.topics = [TopicRequest(name=name) for name in names]


def _topic(
    name: str, node: Node
) -> tuple[DescribeTopicPartitionsResponseTopic, Sequence[PartitionState]]:
    info = node.metadata.topics.get(name)
    topic = DescribeTopicPartitionsResponseTopic(
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=ALL_ON_TOPIC,  # also if there is none, as in Kafka
    )
    if info is None:
        legal = is_topic_name(name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
        topic.error_code = code
        return topic, []
    topic.topic_id = info.topic_id
    return topic, info.partitions


def _refused(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=name, error_code=code, is_internal=is_internal(name)
    )


def _partition(
    state: PartitionState, call: Call, node: Node
) -> DescribeTopicPartitionsResponsePartition:
    code = node.metadata.leader_error(state, call.client.entrance)
    return DescribeTopicPartitionsResponsePartition(
        error_code=code,
        partition_index=state.partition,
        leader_id=NO_LEADER if code else state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=list(state.offline_replicas),
        eligible_leader_replicas=[],
        last_known_elr=[],
    )
