"""DeleteAcls 0-3: remove the ACLs that filters match; the answer lists them.

An ACL that several filters match is listed for the first of them. What other brokers have added is
found if this broker has been notified, or if a filter names the resource pattern.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k31_delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

from ..administration.acls import Acls
from ..cluster.store_calls import map_concurrently
from ..core.acls.filters import Filter
from ..core.acls.terms import Entry, Operation, Pattern, PatternType, Permission, ResourceType
from ..net.call import Call
from ..node import Node
from ..slices import Slices

NO_AUTHORIZER: Final = "No Authorizer is configured."
FILTERS_MAX: Final = 1_000
"""In one request: each is compared with each ACL."""

Filters = list[tuple[Filter, DeleteAclsFilterResult]]


async def handle(request: DeleteAclsRequest, call: Call, node: Node) -> DeleteAclsResponse:
    """Remove what the valid filters match."""
    acls = node.acls
    if acls is None:
        return refuse(request, call.version, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    if len(request.filters) > FILTERS_MAX:
        message = f"at most {FILTERS_MAX} filters a request"
        return refuse(request, call.version, ErrorCode.INVALID_REQUEST, message)
    results = [DeleteAclsFilterResult(error_message=None) for _ in request.filters]
    filters: Filters = []
    for asked, result in zip(map(_filter, request.filters), results, strict=True):
        if asked.has_unknown:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = "the filter has unknown elements"
        else:
            filters.append((asked, result))
    patterns = set(acls.authorizer.index.entries)
    patterns.update(pattern for asked, _ in filters for pattern in asked.exact_patterns())
    matched: list[tuple[Pattern, Filters]] = []
    slices = Slices(node.clock)
    for pattern in patterns:
        await slices.step()
        matching = [each for each in filters if each[0].matches_pattern(pattern)]
        if matching:
            matched.append((pattern, matching))
    await map_concurrently(lambda each: _remove(acls, *each), matched)
    return DeleteAclsResponse(filter_results=results)


def refuse(
    request: DeleteAclsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DeleteAclsResponse:
    """Refuse each filter."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters
        ]
    )


async def _remove(acls: Acls, pattern: Pattern, filters: Filters) -> None:
    def is_matched(entry: Entry) -> bool:
        return any(asked.matches_entry(entry) for asked, _ in filters)

    try:
        removed, refused = await acls.remove(pattern, is_matched), None
    except Refused as error:  # what would have been removed, each with the code
        removed, refused = frozenset(filter(is_matched, acls.authorizer.entries_of(pattern))), error
    for entry in removed:
        result = next(result for asked, result in filters if asked.matches_entry(entry))
        listed = _listed(pattern, entry)
        if refused is not None:
            listed.error_code, listed.error_message = refused.code, refused.message
        result.matching_acls.append(listed)


def _listed(pattern: Pattern, entry: Entry) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _filter(asked: DeleteAclsFilter) -> Filter:
    return Filter(
        ResourceType.of_code(asked.resource_type_filter),
        asked.resource_name_filter,
        PatternType.of_code(asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        Operation.of_code(asked.operation),
        Permission.of_code(asked.permission_type),
    )
