"""AlterConfigs 0-2: replace all of a topic's, a broker's or a group's own settings.

Settings that are not named are reset.  Loggers do not support this request.
"""

from odradek.protocol.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

from ..administration.config_resources import ResourceChange, change_resources
from ..core.acls.terms import Operation
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights
from ..settings.changes import ConfigChange
from ..settings.changes import Operation as ConfigOperation
from .config_rights import missing_right


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
