"""SyncGroup (API key 14): get an assignment in a generation; the leader sends all of them.

Source: SyncGroupRequest.json, SyncGroupResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, binary, int16, int32, string


class SyncGroupRequestAssignment(Struct):
    """The leader's assignment for one member."""

    member_id: str = string("0+")
    assignment: bytes = binary("0+")


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    """Wait for the assignment; only the leader sends assignments."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    protocol_type: str | None = string("5+", default=None, nullable="5+")
    protocol_name: str | None = string("5+", default=None, nullable="5+")
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment, "0+")


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    """The assignment of this member."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", default=None, nullable="5+")
    protocol_name: str | None = string("5+", default=None, nullable="5+")
    assignment: bytes = binary("0+")
