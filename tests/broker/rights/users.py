"""The users of the matrix of rights, each with its ACLs, and how one logs in to Kafka as one."""

from collections.abc import Iterator
from typing import Final

from odradek.broker.core.acls.terms import (
    CLUSTER_NAME,
    WILDCARD,
    Binding,
    Entry,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)

ADMIN: Final = "admin"
NOBODY: Final = "nobody"
EVERYTHING: Final = "everything"
DENIED: Final = "denied"
OPERATIONS: Final = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
    ResourceType.TRANSACTIONAL_ID: (4, 8),
    ResourceType.USER: (13, 14),
}
TOGETHER: Final = (
    "topic-read,group-read",
    "topic-read,group-delete",
    "topic-read,group-read,transactional_id-write",
    "topic-write,transactional_id-write",
    "group-read,transactional_id-write",
    "topic-describe,group-describe",
    "topic-describe,group-read",
    "topic-describe,topic-delete",
    "topic-describe,topic-create",
    "topic-create,topic-describe_configs",
    "topic-describe,transactional_id-describe",
    "topic-describe,cluster-create",
    "topic-describe,cluster-describe",
)
"""Rights that some requests need at once."""


def _single() -> Iterator[str]:
    for kind, operations in OPERATIONS.items():
        for operation in operations:
            yield f"{kind.name.lower()}-{Operation(operation).name.lower()}"


USERS: Final = (ADMIN, NOBODY, EVERYTHING, DENIED, *_single(), *TOGETHER)
"""Named after what they may do."""


def principal_of(user: str) -> str:
    """A user's principal."""
    return f"User:{user}"


def acls() -> list[Binding]:
    """All ACLs; the super user needs none, and one has none."""
    bindings = []
    for user in USERS:
        if user in (EVERYTHING, DENIED):
            for kind in OPERATIONS:
                bindings.append(_binding(user, kind, Operation.ALL, Permission.ALLOW))
                if user == DENIED:
                    bindings.append(_binding(user, kind, Operation.ALL, Permission.DENY))
        elif user not in (ADMIN, NOBODY):
            for right in user.split(","):
                name, _, operation = right.upper().partition("-")
                bindings.append(_binding(user, ResourceType[name], Operation[operation]))
    return bindings


def _binding(
    user: str, kind: ResourceType, operation: Operation, permission: Permission = Permission.ALLOW
) -> Binding:
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else WILDCARD
    return Binding(Pattern(kind, name), Entry(principal_of(user), permission, operation))
