"""The responses of classic groups, in the form that Kafka uses in each version."""

from collections.abc import Iterable

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k11_join_group import JoinGroupResponse
from odradek.protocol.messages.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from odradek.protocol.messages.k14_sync_group import SyncGroupResponse


def join_refused(version: int, code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """The JoinGroup response with an error."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=-1,
        protocol_name=protocol_name_of(version, None),
        leader="",
        member_id=member_id,
    )


def protocol_name_of(version: int, protocol_name: str | None) -> str | None:
    """The protocol name in JoinGroup; if none is selected, None, or "" before v7."""
    return protocol_name or (None if version >= 7 else "")


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    """The SyncGroup response with an error."""
    return SyncGroupResponse(error_code=code)


def members_of(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    """The members to remove; before v3, a request names only one."""
    return request.members if version >= 3 else [MemberIdentity(member_id=request.member_id)]


def leave_answer(
    request: LeaveGroupRequest, version: int, codes: Iterable[ErrorCode]
) -> LeaveGroupResponse:
    """The LeaveGroup response with a code per member; before v3, that of the only member."""
    if version < 3:
        return LeaveGroupResponse(error_code=next(iter(codes)))
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=code,
            )
            for member, code in zip(request.members, codes, strict=True)
        ]
    )


def leave_refused(code: ErrorCode) -> LeaveGroupResponse:
    """The LeaveGroup response if nothing was done."""
    return LeaveGroupResponse(error_code=code)
