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
from ..settings.changes import ConfigChange, Operation


async def handle(request: AlterConfigsRequest, call: Call, node: Node) -> AlterConfigsResponse:
    """Change one resource after the other."""
    changes = [
        ResourceChange(
            asked.resource_type,
            asked.resource_name,
            [ConfigChange(c.name, Operation.SET, c.value) for c in asked.configs],
            replaces=True,
        )
        for asked in request.resources
    ]
    responses = await change_resources(
        changes, node, AlterConfigsResourceResponse, validate_only=request.validate_only
    )
    return AlterConfigsResponse(responses=responses)
