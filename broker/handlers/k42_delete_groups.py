"""DeleteGroups 0-2: delete groups without members, with their offsets."""

import asyncio

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

from ..call import Call
from ..node import Node


async def handle(request: DeleteGroupsRequest, call: Call, node: Node) -> DeleteGroupsResponse:
    """Delete each group once."""
    names = dict.fromkeys(request.groups_names)
    results = await asyncio.gather(*(_delete(name, node) for name in names))
    return DeleteGroupsResponse(results=list(results))


async def _delete(group_id: str, node: Node) -> DeletableGroupResult:
    if not group_id:
        return DeletableGroupResult(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    answer = node.groups.ask(
        group_id,
        lambda shard, reply, moment: shard.delete(group_id, reply, moment),
        lambda code: DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=group_id, error_code=code)]
        ),
    )
    response = await answer if isinstance(answer, asyncio.Future) else answer
    assert isinstance(response, DeleteGroupsResponse)
    return response.results[0]
