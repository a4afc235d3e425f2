"""CreateAcls 0-3: add ACLs; those of one resource pattern are added all or none."""

from collections import defaultdict
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k30_create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

from ..administration.acls import Acls, check_new
from ..cluster.store_calls import map_concurrently
from ..core.acls.terms import (
    Binding,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from ..net.call import Call
from ..node import Node
from ..slices import Slices

NO_AUTHORIZER: Final = "No Authorizer is configured."


async def handle(request: CreateAclsRequest, call: Call, node: Node) -> CreateAclsResponse:
    """Add the valid ones."""
    acls = node.acls
    if acls is None:
        return refuse(request, call.version, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    results = [AclCreationResult(error_message=None) for _ in request.creations]
    new: defaultdict[Pattern, list[tuple[Entry, AclCreationResult]]] = defaultdict(list)
    slices = Slices(node.clock)
    for asked, result in zip(request.creations, results, strict=True):
        await slices.step()
        binding = _binding(asked)
        try:
            check_new(binding)
        except Refused as refused:
            result.error_code, result.error_message = refused.code, refused.message
        else:
            new[binding.pattern].append((binding.entry, result))
    await map_concurrently(lambda each: _add(acls, *each), list(new.items()))
    return CreateAclsResponse(results=results)


def refuse(
    request: CreateAclsRequest, version: int, code: ErrorCode, message: str | None = None
) -> CreateAclsResponse:
    """Refuse each ACL."""
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=code, error_message=message) for _ in request.creations
        ]
    )


async def _add(acls: Acls, pattern: Pattern, new: list[tuple[Entry, AclCreationResult]]) -> None:
    try:
        await acls.add(pattern, [entry for entry, _ in new])
    except Refused as refused:
        for _, result in new:
            result.error_code, result.error_message = refused.code, refused.message


def _binding(asked: AclCreation) -> Binding:
    return Binding(
        Pattern(
            ResourceType.of_code(asked.resource_type),
            asked.resource_name,
            PatternType.of_code(asked.resource_pattern_type),
        ),
        Entry(
            asked.principal,
            Permission.of_code(asked.permission_type),
            Operation.of_code(asked.operation),
            asked.host,
        ),
    )
