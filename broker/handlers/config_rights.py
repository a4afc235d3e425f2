"""Rights to the configs of resources: those of brokers and loggers are rights to the cluster."""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from odradek.protocol.errors import ErrorCode

from ..core.acls.terms import CLUSTER_NAME, Operation, ResourceType
from ..rights.rights import REFUSAL, Rights
from ..settings.resources import ResourceType as ConfigResource


class Resource(Protocol):
    """A resource whose configs a request is about."""

    resource_type: int
    resource_name: str


AskedT = TypeVar("AskedT", bound=Resource)
RefusalT = TypeVar("RefusalT")

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


def alterable(
    resources: Iterable[AskedT], rights: Rights, refusal: Callable[..., RefusalT]
) -> tuple[list[AskedT], list[RefusalT]]:
    """The resources whose configs the client may alter, and a refusal of each other one.

    `refusal` is the message for the result of a resource.
    """
    allowed: list[AskedT] = []
    refused: list[RefusalT] = []
    for asked in resources:
        kind, name = asked.resource_type, asked.resource_name
        code = missing_right(rights, Operation.ALTER_CONFIGS, kind, name)
        if code is None:
            allowed.append(asked)
        else:
            refused.append(
                refusal(error_code=code, error_message=None, resource_type=kind, resource_name=name)
            )
    return allowed, refused
