"""DeleteGroups 0-2: delete groups without members, with their offsets."""

import asyncio
from functools import partial
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from odradek.protocol.schema import Message

from ..core.acls.terms import Operation
from ..core.groups.shard import Shard, delete_answer
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split

TURN_GROUPS_MAX: Final = 100  # asked before other tasks get their turn


async def handle(request: DeleteGroupsRequest, call: Call, node: Node) -> DeleteGroupsResponse:
    """Delete each group once."""
    answers: list[Message | asyncio.Future[Message]] = []
    for name in dict.fromkeys(request.groups_names):
        answers.append(_delete(name, call, node))
        if len(answers) % TURN_GROUPS_MAX == 0:
            await asyncio.sleep(0)
    results: list[DeletableGroupResult] = []
    for answer in answers:
        response = await answer if isinstance(answer, asyncio.Future) else answer
        assert isinstance(response, DeleteGroupsResponse)
        results += response.results
    return DeleteGroupsResponse(results=results)


async def guarded(
    request: DeleteGroupsRequest, call: Call, node: Node, rights: Rights
) -> DeleteGroupsResponse:
    """Delete the groups that the client may delete."""
    request.groups_names, refused = split(
        request.groups_names, lambda group_id: rights.group(Operation.DELETE, group_id)
    )
    response = await handle(request, call, node)
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    response.results += [
        DeletableGroupResult(group_id=group_id, error_code=code)
        for group_id in dict.fromkeys(refused)
    ]
    return response


def _delete(group_id: str, call: Call, node: Node) -> Message | asyncio.Future[Message]:
    refused = partial(delete_answer, group_id)
    return node.groups.ask(Shard.delete, group_id, group_id, call, refused)
