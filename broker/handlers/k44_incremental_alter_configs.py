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
from ..settings.changes import ConfigChange


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
