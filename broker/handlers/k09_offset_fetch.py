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
from ..core.groups.offsets_answers import older_shape, refuse_fetch
from ..net.call import Call
from ..node import Node

GROUPS_VERSION_FIRST: Final = 8
TOP_LEVEL_CODE_VERSION_FIRST: Final = 2


def handle(request: OffsetFetchRequest, call: Call, node: Node) -> OffsetFetchResponse:
    """Read the offsets of each group."""
    if call.version >= GROUPS_VERSION_FIRST:
        return OffsetFetchResponse(groups=list(_fetch_each(request, call, node)))
    one = _fetch(_as_group(request), request, call, node)
    topics = older_shape(one.topics)
    if one.error_code and call.version < TOP_LEVEL_CODE_VERSION_FIRST:
        topics = refuse_fetch(request.topics or (), ErrorCode(one.error_code))
    return OffsetFetchResponse(topics=topics, error_code=one.error_code)


def _fetch_each(
    request: OffsetFetchRequest, call: Call, node: Node
) -> Iterator[OffsetFetchResponseGroup]:
    seen: set[str] = set()
    for group in request.groups:
        if group.group_id in seen:
            code = ErrorCode.INVALID_REQUEST
            yield OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
        else:
            seen.add(group.group_id)
            yield _fetch(group, request, call, node)


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
    asked: OffsetFetchRequestGroup, request: OffsetFetchRequest, call: Call, node: Node
) -> OffsetFetchResponseGroup:
    try:
        shard = node.groups.shard_of(asked.group_id)
    except Refused as refused:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=refused.code)
    return shard.fetch_offsets(asked, caller_of(call), require_stable=request.require_stable)
