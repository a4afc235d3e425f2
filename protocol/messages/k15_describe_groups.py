"""DescribeGroups (API key 15): state and members of classic groups.

Source: DescribeGroupsRequest.json, DescribeGroupsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, binary, boolean, int16, int32, string


class DescribeGroupsRequest(Message, api_key=15, versions="0-5", flexible="5+"):
    """Describe these groups."""

    groups: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Struct):
    """A member, with the metadata and the assignment that clients wrote."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", default=None, nullable="4+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = binary("0+")
    member_assignment: bytes = binary("0+")


class DescribedGroup(Struct):
    """A classic group; one that is unknown is Dead."""

    error_code: int = int16("0+")
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+")
    authorized_operations: int = int32("3+", default=-2147483648)


class DescribeGroupsResponse(Message, api_key=15, versions="0-5", flexible="5+"):
    """The groups."""

    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")
