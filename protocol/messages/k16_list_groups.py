"""ListGroups (API key 16): the groups that this broker coordinates.

Source: ListGroupsRequest.json, ListGroupsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int16, int32, string


class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    """Groups in these states and of these types; empty: all."""

    states_filter: list[str] = array("string", "4+")
    types_filter: list[str] = array("string", "5+")


class ListedGroup(Struct):
    """A group."""

    group_id: str = string("0+")
    protocol_type: str = string("0+")
    group_state: str = string("4+")
    group_type: str = string("5+")


class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    """The groups of this coordinator."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")
    groups: list[ListedGroup] = array(ListedGroup, "0+")
