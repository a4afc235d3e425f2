"""IncrementalAlterConfigs 0-1: change single settings of a topic, a broker, a logger or a group.

Settings that are not named are unchanged.
"""

from odradek.protocol.messages.k44_incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from ..administration.config_resources import ResourceChange, change_resources
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights
from ..settings.changes import ConfigChange
from .config_rights import alterable


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
    request.resources, refused = alterable(request.resources, rights, AlterConfigsResourceResponse)
    response = await handle(request, call, node)
    response.responses += refused
    return response
