"""AlterClientQuotas 0-1: set and remove quotas, or only validate.  They are not enforced yet.

As in Kafka, if an entity names a type twice the last name counts. An entity that is named twice is
changed twice and answered once, with the result of the last change.
"""

from odradek.protocol.errors import Refused
from odradek.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
    EntryData,
)

from ..core.client_quotas import Change
from ..net.call import Call
from ..node import Node


async def handle(
    request: AlterClientQuotasRequest, call: Call, node: Node
) -> AlterClientQuotasResponse:
    """Change one entity after the other."""
    results = {}
    for entry in request.entries:
        entity = {part.entity_type: part.entity_name for part in entry.entity}
        result = AlterClientQuotasResponseEntryData(
            error_message=None,
            entity=[EntityData(entity_type=t, entity_name=name) for t, name in entity.items()],
        )
        results[frozenset(entity.items())] = result
        try:
            await node.client_quotas.alter(
                entity, _changes(entry), validate_only=request.validate_only
            )
        except Refused as refused:
            result.error_code, result.error_message = refused.code, refused.message
    return AlterClientQuotasResponse(entries=list(results.values()))


def _changes(entry: EntryData) -> list[Change]:
    return [Change(op.key, None if op.remove else op.value) for op in entry.ops]
