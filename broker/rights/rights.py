"""The rights of the client that has sent a request."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from odradek.protocol.errors import ErrorCode

from ..core.acls.authorizer import Authorizer
from ..core.acls.terms import CLUSTER_NAME, Operation, ResourceType
from .audit import Audit

ItemT = TypeVar("ItemT")

REFUSAL: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The code for a request about a resource of this type that the client has no right to."""

_SUPPORTED: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


class Rights:
    """What a client may do.  Ask for each use: ACLs may change while a request waits.

    A right that is missing is noted in the audit log. With `quietly` it is not: the client has not
    asked for it, or another right suffices.
    """

    __slots__ = ("_api_name", "_audit", "_authorizer", "_host", "_principal")

    def __init__(
        self, authorizer: Authorizer, audit: Audit, *, principal: str, host: str, api_name: str
    ) -> None:
        self._authorizer = authorizer
        self._audit = audit
        self._principal = principal
        self._host = host
        self._api_name = api_name

    def may(
        self, operation: Operation, kind: ResourceType, name: str, *, quietly: bool = False
    ) -> bool:
        """Whether the client may do something with a resource."""
        if self._authorizer.decisions(self._principal, self._host).may(operation, kind, name):
            return True
        if not quietly:
            self._deny(operation, kind, name)
        return False

    def may_some(self, operation: Operation, kind: ResourceType) -> bool:
        """Whether the client may do something with some resource of a type."""
        if self._authorizer.decisions(self._principal, self._host).may_some(operation, kind):
            return True
        self._deny(operation, kind, "any")
        return False

    def topic(self, operation: Operation, name: str, *, quietly: bool = False) -> bool:
        """The same as `may`, for a topic."""
        return self.may(operation, ResourceType.TOPIC, name, quietly=quietly)

    def may_describe(self, topic: str) -> bool:
        """Whether the client may know of a topic that it has not named itself."""
        return self.topic(Operation.DESCRIBE, topic, quietly=True)

    def group(self, operation: Operation, group_id: str, *, quietly: bool = False) -> bool:
        """The same for a group."""
        return self.may(operation, ResourceType.GROUP, group_id, quietly=quietly)

    def transactional_id(self, operation: Operation, name: str, *, quietly: bool = False) -> bool:
        """The same for a transactional id."""
        return self.may(operation, ResourceType.TRANSACTIONAL_ID, name, quietly=quietly)

    def cluster(self, operation: Operation, *, quietly: bool = False) -> bool:
        """The same for the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, quietly=quietly)

    def operations(self, kind: ResourceType, name: str) -> int:
        """The operations that the client may do with a resource, as a bit set."""
        return sum(
            1 << operation
            for operation in _SUPPORTED[kind]
            if self.may(operation, kind, name, quietly=True)
        )

    def cluster_operations(self) -> int:
        """The same for the cluster; none for a client that may not describe it."""
        if not self.cluster(Operation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME)

    def _deny(self, operation: Operation, kind: ResourceType, name: str) -> None:
        self._audit.denied(self._principal, self._host, self._api_name, operation, kind, name)


def split(
    items: Iterable[ItemT], is_allowed: Callable[[ItemT], bool]
) -> tuple[list[ItemT], list[ItemT]]:
    """The items that are allowed, and the others."""
    allowed: list[ItemT] = []
    refused: list[ItemT] = []
    for item in items:
        (allowed if is_allowed(item) else refused).append(item)
    return allowed, refused
