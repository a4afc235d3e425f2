"""IncrementalAlterConfigs 0-1: change single settings of a topic, a broker, a logger or a group.

Settings that are not named are unchanged.
"""

from odradek.protocol.messages.k44_incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from ..administration.config_resources import ResourceChange, change_resources
from ..core.acls.terms import Operation
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights
from ..settings.changes import ConfigChange
from .config_rights import missing_right


async def handle(
    request: IncrementalAlterConfigsRequest, call: Call, node: Node
) -> IncrementalAlterConfigsResponse:
    """Change one resource after the other."""
    changes = [
        ResourceChange(
            asked.resource_type,
            asked.resource_name,
            [ConfigChange(c.name, c.config_operation, c.value) for c in asked.configs],
            replaces=False,
        )
        for asked in request.resources
    ]
    responses = await change_resources(
        changes, node, AlterConfigsResourceResponse, validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(responses=responses)


async def guarded(
    request: IncrementalAlterConfigsRequest, call: Call, node: Node, rights: Rights
) -> IncrementalAlterConfigsResponse:
    """Change the resources whose configs the client may alter."""
    allowed, refused = [], []
    for asked in request.resources:
        kind, name = asked.resource_type, asked.resource_name
        code = missing_right(rights, Operation.ALTER_CONFIGS, kind, name)
        if code is None:
            allowed.append(asked)
        else:
            refused.append(
                AlterConfigsResourceResponse(
                    error_code=code, error_message=None, resource_type=kind, resource_name=name
                )
            )
    request.resources = allowed
    response = await handle(request, call, node)
    response.responses += refused
    return response
