"""DeleteGroups 0-2: delete groups without members, with their offsets."""

import asyncio
from functools import partial
from typing import Final

from odradek.protocol.messages.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from odradek.protocol.schema import Message

from ..core.groups.shard import Shard, delete_answer
from ..net.call import Call
from ..node import Node

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


def _delete(group_id: str, call: Call, node: Node) -> Message | asyncio.Future[Message]:
    refused = partial(delete_answer, group_id)
    return node.groups.ask(Shard.delete, group_id, group_id, call, refused)
