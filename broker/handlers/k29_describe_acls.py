"""DescribeAcls 0-3: the ACLs that a filter matches, by resource pattern.

They are those that this broker knows: a change by another broker shows once it has been notified.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k29_describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

from ..core.acls.filters import Filter
from ..core.acls.terms import Operation, Pattern, PatternType, Permission, ResourceType
from ..net.call import Call
from ..node import Node
from ..slices import Slices

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"


async def handle(request: DescribeAclsRequest, call: Call, node: Node) -> DescribeAclsResponse:
    """Match each ACL."""
    if node.acls is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
        )
    asked = Filter(
        ResourceType.of_code(request.resource_type_filter),
        request.resource_name_filter,
        PatternType.of_code(request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        Operation.of_code(request.operation),
        Permission.of_code(request.permission_type),
    )
    if asked.has_unknown:
        return DescribeAclsResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="the filter has unknown elements"
        )
    found: dict[Pattern, DescribeAclsResource] = {}
    slices = Slices(node.clock)
    for binding in list(node.acls.authorizer.index):
        await slices.step()
        if not asked.matches(binding):
            continue
        pattern, entry = binding
        resource = found.get(pattern)
        if resource is None:
            resource = found[pattern] = DescribeAclsResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
            )
        resource.acls.append(
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
        )
    return DescribeAclsResponse(resources=list(found.values()))
