"""OffsetFetch 0-9: the committed offsets of a group, or (v8+) of several.

A group that is named again is refused: otherwise a small request could return all its offsets many
times over.
"""

from collections.abc import Iterator
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

from ..coordinators.callers import caller_of
from ..core.acls.terms import Operation
from ..core.groups.offsets_answers import fetch_answer, older_shape, refuse_fetch
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split

GROUPS_VERSION_FIRST: Final = 8
TOP_LEVEL_CODE_VERSION_FIRST: Final = 2


def handle(
    request: OffsetFetchRequest, call: Call, node: Node, rights: Rights | None = None
) -> OffsetFetchResponse:
    """Read the offsets of groups and topics that the client may describe."""
    if call.version >= GROUPS_VERSION_FIRST:
        return OffsetFetchResponse(groups=list(_fetch_each(request, call, node, rights)))
    one = _fetch(_as_group(request), request, call, node, rights)
    topics = older_shape(one.topics)
    if one.error_code and call.version < TOP_LEVEL_CODE_VERSION_FIRST:
        topics = refuse_fetch(request.topics or (), ErrorCode(one.error_code))
    return OffsetFetchResponse(topics=topics, error_code=one.error_code)


guarded = handle


def _fetch_each(
    request: OffsetFetchRequest, call: Call, node: Node, rights: Rights | None
) -> Iterator[OffsetFetchResponseGroup]:
    seen: set[str] = set()
    for group in request.groups:
        if group.group_id in seen:
            code = ErrorCode.INVALID_REQUEST
            yield OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
        else:
            seen.add(group.group_id)
            yield _fetch(group, request, call, node, rights)


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Convert a request before v8 to the later form."""
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _fetch(
    asked: OffsetFetchRequestGroup,
    request: OffsetFetchRequest,
    call: Call,
    node: Node,
    rights: Rights | None,
) -> OffsetFetchResponseGroup:
    if rights is None:
        return _fetch_all(asked, request, call, node)
    if not rights.group(Operation.DESCRIBE, asked.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code)
    if asked.topics is None:  # those that the client may not describe are not named
        found = _fetch_all(asked, request, call, node)
        found.topics = [
            topic
            for topic in found.topics
            if rights.topic(Operation.DESCRIBE, topic.name, quietly=True)
        ]
        return found
    asked.topics, refused = split(
        asked.topics, lambda topic: rights.topic(Operation.DESCRIBE, topic.name)
    )
    found = _fetch_all(asked, request, call, node)
    if not found.error_code:
        found.topics += fetch_answer(
            {
                (topic.name, index): ErrorCode.TOPIC_AUTHORIZATION_FAILED
                for topic in refused
                for index in topic.partition_indexes
            }
        )
    return found


def _fetch_all(
    asked: OffsetFetchRequestGroup, request: OffsetFetchRequest, call: Call, node: Node
) -> OffsetFetchResponseGroup:
    try:
        shard = node.groups.shard_of(asked.group_id)
    except Refused as refused:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=refused.code)
    return shard.fetch_offsets(asked, caller_of(call), require_stable=request.require_stable)
