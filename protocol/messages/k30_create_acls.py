"""CreateAcls (API key 30): add ACLs.

Source: CreateAclsRequest.json, CreateAclsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int8, int16, int32, string

LITERAL = 3


class AclCreation(Struct):
    """An ACL to add."""

    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    resource_pattern_type: int = int8("1+", default=LITERAL)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class CreateAclsRequest(Message, api_key=30, versions="0-3", flexible="2+"):
    """Add these ACLs."""

    creations: list[AclCreation] = array(AclCreation, "0+")


class AclCreationResult(Struct):
    """The result for the ACL at the same place in the request."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class CreateAclsResponse(Message, api_key=30, versions="0-3", flexible="2+"):
    """The results, in the order of the request."""

    throttle_time_ms: int = int32("0+")
    results: list[AclCreationResult] = array(AclCreationResult, "0+")
