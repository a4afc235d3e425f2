"""DescribeClientQuotas 0-1: the quotas of matching entities."""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k48_describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

from ..administration.store_failures import refused_without_store
from ..core.client_quotas import Entity, matches, parse_components
from ..net.call import Call
from ..node import Node


async def handle(
    request: DescribeClientQuotasRequest, call: Call, node: Node
) -> DescribeClientQuotasResponse:
    """Read and filter all quotas of the cluster."""
    try:
        components = parse_components(
            (component.entity_type, component.match_type, component.match)
            for component in request.components
        )
        with refused_without_store():
            entries = [
                _described(entity, quotas)
                async for entity, quotas in node.client_quotas.all()
                if matches(entity, components, strict=request.strict)
            ]
    except Refused as refused:
        return DescribeClientQuotasResponse(
            error_code=refused.code, error_message=refused.message, entries=None
        )
    return DescribeClientQuotasResponse(error_message="", entries=entries)


def refuse(
    request: DescribeClientQuotasRequest, version: int, code: ErrorCode
) -> DescribeClientQuotasResponse:
    """Refuse the request, without entries."""
    return DescribeClientQuotasResponse(error_code=code, entries=None)


def _described(entity: Entity, quotas: dict[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        values=[ValueData(key=key, value=value) for key, value in quotas.items()],
    )
