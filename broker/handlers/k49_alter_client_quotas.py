"""AlterClientQuotas 0-1: set and remove quotas, or only validate; in force when answered.

As in Kafka, if an entity names a type twice the last name counts. An entity that is named twice is
changed twice and answered once, with the result of the last change.
"""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
    EntryData,
)

from ..administration.config_writes import NOTHING_TO_WRITE
from ..core.client_quotas import Change
from ..net.call import Call
from ..node import Node


async def handle(
    request: AlterClientQuotasRequest, call: Call, node: Node
) -> AlterClientQuotasResponse:
    """Change one entity after the other."""
    results = {}
    number = NOTHING_TO_WRITE
    for entry in request.entries:
        entity = {part.entity_type: part.entity_name for part in entry.entity}
        result = AlterClientQuotasResponseEntryData(
            error_message=None,
            entity=[EntityData(entity_type=t, entity_name=name) for t, name in entity.items()],
        )
        results[frozenset(entity.items())] = result
        try:
            number = max(
                number,
                await node.client_quotas.alter(
                    entity, _changes(entry), validate_only=request.validate_only
                ),
            )
        except Refused as refused:
            result.error_code, result.error_message = refused.code, refused.message
    await node.dynamic_configs.until_applied(number)
    return AlterClientQuotasResponse(entries=list(results.values()))


def refuse(
    request: AlterClientQuotasRequest, version: int, code: ErrorCode
) -> AlterClientQuotasResponse:
    """Refuse each entity."""
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=code,
                error_message=None,
                entity=[
                    EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def _changes(entry: EntryData) -> list[Change]:
    return [Change(op.key, None if op.remove else op.value) for op in entry.ops]
