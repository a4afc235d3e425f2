"""DescribeAcls (API key 29): the ACLs that a filter matches.

Source: DescribeAclsRequest.json, DescribeAclsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int8, int16, int32, string

LITERAL = 3


class DescribeAclsRequest(Message, api_key=29, versions="0-3", flexible="2+"):
    """Find the ACLs that match all fields; null and ANY (1) match each value."""

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=LITERAL)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class AclDescription(Struct):
    """Who may do what, or may not."""

    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DescribeAclsResource(Struct):
    """A resource pattern with its ACLs."""

    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=LITERAL)
    acls: list[AclDescription] = array(AclDescription, "0+")


class DescribeAclsResponse(Message, api_key=29, versions="0-3", flexible="2+"):
    """The ACLs, by resource pattern."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource, "0+")
