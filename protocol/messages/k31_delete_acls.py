"""DeleteAcls (API key 31): remove the ACLs that filters match.

Source: DeleteAclsRequest.json, DeleteAclsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int8, int16, int32, string

LITERAL = 3


class DeleteAclsFilter(Struct):
    """ACLs to remove: those that match all fields; null and ANY (1) match each value."""

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=LITERAL)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DeleteAclsRequest(Message, api_key=31, versions="0-3", flexible="2+"):
    """Remove the ACLs that match any of these filters."""

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter, "0+")


class DeleteAclsMatchingAcl(Struct):
    """An ACL that matched, and whether it was removed."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=LITERAL)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DeleteAclsFilterResult(Struct):
    """The result for the filter at the same place in the request."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl, "0+")


class DeleteAclsResponse(Message, api_key=31, versions="0-3", flexible="2+"):
    """The results, in the order of the request."""

    throttle_time_ms: int = int32("0+")
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult, "0+")
