"""AlterConfigs 0-2: replace all of a topic's, a broker's or a group's own settings.

Settings that are not named are reset.  Loggers do not support this request.
"""

from odradek.protocol.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

from ..administration.config_resources import ResourceChange, change_resources
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights
from ..settings.changes import ConfigChange
from ..settings.changes import Operation as ConfigOperation
from .config_rights import alterable


async def handle(request: AlterConfigsRequest, call: Call, node: Node) -> AlterConfigsResponse:
    """Change one resource after the other."""
    changes = [
        ResourceChange(
            asked.resource_type,
            asked.resource_name,
            [ConfigChange(c.name, ConfigOperation.SET, c.value) for c in asked.configs],
            replaces=True,
        )
        for asked in request.resources
    ]
    responses = await change_resources(
        changes, node, AlterConfigsResourceResponse, validate_only=request.validate_only
    )
    return AlterConfigsResponse(responses=responses)


async def guarded(
    request: AlterConfigsRequest, call: Call, node: Node, rights: Rights
) -> AlterConfigsResponse:
    """Change the resources whose configs the client may alter."""
    request.resources, refused = alterable(request.resources, rights, AlterConfigsResourceResponse)
    response = await handle(request, call, node)
    response.responses += refused
    return response
