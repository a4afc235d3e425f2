"""ACLs as CreateAcls has them."""

from collections.abc import Iterable

from odradek.protocol.messages.k30_create_acls import AclCreation

from .terms import Binding


def creations_of(bindings: Iterable[Binding]) -> list[AclCreation]:
    """The ACLs to add, in the same order."""
    return [
        AclCreation(
            resource_type=pattern.resource_type,
            resource_name=pattern.name,
            resource_pattern_type=pattern.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        for pattern, entry in bindings
    ]
