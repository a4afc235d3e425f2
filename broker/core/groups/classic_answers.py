"""The answers of classic groups, as Kafka words them in each version."""

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
    """A JoinGroup that begins no generation."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=-1,
        protocol_name=protocol_name_of(version, None),
        leader="",
        member_id=member_id,
    )


def protocol_name_of(version: int, protocol_name: str | None) -> str | None:
    """How JoinGroup says that no protocol is chosen: not at all, or, before v7, with ""."""
    return protocol_name or (None if version >= 7 else "")


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    """A SyncGroup without assignment."""
    return SyncGroupResponse(error_code=code)


def members_of(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    """Who is to leave; before v3 it was a single one."""
    return request.members if version >= 3 else [MemberIdentity(member_id=request.member_id)]


def leave_answer(
    request: LeaveGroupRequest, version: int, codes: Iterable[ErrorCode]
) -> LeaveGroupResponse:
    """One code for each member; before v3 the only one's is the answer's own."""
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
    """A LeaveGroup of which nothing was done."""
    return LeaveGroupResponse(error_code=code)
