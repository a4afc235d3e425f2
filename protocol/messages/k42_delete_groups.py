"""DeleteGroups (API key 42): delete groups without members, with their offsets.

Source: DeleteGroupsRequest.json, DeleteGroupsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int16, int32, string


class DeleteGroupsRequest(Message, api_key=42, versions="0-2", flexible="2+"):
    """Delete these groups."""

    groups_names: list[str] = array("string", "0+")


class DeletableGroupResult(Struct):
    """The result for one group."""

    group_id: str = string("0+")
    error_code: int = int16("0+")


class DeleteGroupsResponse(Message, api_key=42, versions="0-2", flexible="2+"):
    """One code for each group."""

    throttle_time_ms: int = int32("0+")
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+")
