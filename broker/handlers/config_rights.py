"""Rights to the configs of resources: those of brokers and loggers are rights to the cluster."""

from typing import Final

from odradek.protocol.errors import ErrorCode

from ..core.acls.terms import CLUSTER_NAME, Operation, ResourceType
from ..rights.rights import REFUSAL, Rights
from ..settings.resources import ResourceType as ConfigResource

_OF_CLUSTER: Final = (
    ConfigResource.BROKER,
    ConfigResource.BROKER_LOGGER,
    ConfigResource.CLIENT_METRICS,
)


def missing_right(
    rights: Rights, operation: Operation, resource_type: int, name: str
) -> ErrorCode | None:
    """The code for a client that may not describe or alter a resource's configs, else None.

    Handlers refuse unknown types of resources.
    """
    if resource_type in _OF_CLUSTER:
        kind, name = ResourceType.CLUSTER, CLUSTER_NAME
    elif resource_type == ConfigResource.TOPIC:
        kind = ResourceType.TOPIC
    elif resource_type == ConfigResource.GROUP:
        kind = ResourceType.GROUP
    else:
        return None
    return None if rights.may(operation, kind, name) else REFUSAL[kind]
