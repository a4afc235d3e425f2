"""DescribeGroupJournal 0: what happened in groups, and why. Odradek's own, not advertised.

A group's journal is deleted with the group. A request may name at most `GROUPS_MAX` groups, because
a journal may be 200 KB long.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k20001_describe_group_journal import (
    DescribedGroupJournal,
    DescribeGroupJournalRequest,
    DescribeGroupJournalResponse,
    JournalEntry,
)

from ..core.acls.terms import Operation
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split

GROUPS_MAX: Final = 20


def handle(
    request: DescribeGroupJournalRequest, call: Call, node: Node
) -> DescribeGroupJournalResponse:
    """Return each group's journal, the oldest entry first."""
    asked = list(dict.fromkeys(request.groups))
    told = [_told(group_id, node) for group_id in asked[:GROUPS_MAX]]
    too_many = Refused(ErrorCode.INVALID_REQUEST, f"at most {GROUPS_MAX} groups a request")
    refused = [_refused(group_id, too_many) for group_id in asked[GROUPS_MAX:]]
    return DescribeGroupJournalResponse(groups=told + refused)


def guarded(
    request: DescribeGroupJournalRequest, call: Call, node: Node, rights: Rights
) -> DescribeGroupJournalResponse:
    """Return the journals of groups that the client may describe."""
    request.groups, refused = split(
        request.groups, lambda group_id: rights.group(Operation.DESCRIBE, group_id)
    )
    response = handle(request, call, node)
    no_right = Refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    response.groups += [_refused(group_id, no_right) for group_id in dict.fromkeys(refused)]
    return response


def _told(group_id: str, node: Node) -> DescribedGroupJournal:
    try:
        group = node.groups.shard_of(group_id).groups.get(group_id)
        if group is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, "there is no such group")
    except Refused as refused:
        return _refused(group_id, refused)
    return DescribedGroupJournal(
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        entries=[
            JournalEntry(
                timestamp_ms=entry.wall_ms,
                event=entry.event,
                member_id=entry.who,
                reason=entry.reason,
            )
            for entry in group.journal.entries()
        ],
    )


def _refused(group_id: str, refused: Refused) -> DescribedGroupJournal:
    return DescribedGroupJournal(
        group_id=group_id, error_code=refused.code, error_message=refused.message
    )
