"""The vocabulary of kafka-acls: which ACLs its options mean.

Source: AclCommand and AclEntry of Kafka 3.9.2.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import click

from odradek.broker.core.acls.filters import Filter
from odradek.broker.core.acls.terms import (
    CLUSTER_NAME,
    WILDCARD,
    Binding,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

_O = Operation
_CONFIGS: Final = {_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS}
SUPPORTED: Final[Mapping[ResourceType, frozenset[Operation]]] = {
    ResourceType.TOPIC: frozenset(
        {_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, *_CONFIGS}
    ),
    ResourceType.GROUP: frozenset({_O.READ, _O.DESCRIBE, _O.DELETE}),
    ResourceType.CLUSTER: frozenset(
        {_O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.IDEMPOTENT_WRITE, *_CONFIGS}
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset({_O.WRITE, _O.DESCRIBE}),
    ResourceType.DELEGATION_TOKEN: frozenset({_O.DESCRIBE}),
    ResourceType.USER: frozenset({_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS}),
}
"""The operations that Kafka's tool accepts for each type, beside All."""
OPERATIONS: Final = {
    operation.text: operation
    for operation in Operation
    if operation not in (Operation.UNKNOWN, Operation.ANY)
}

Resource = tuple[ResourceType, str]


@dataclass(frozen=True, slots=True)
class Access:
    """Who is allowed or denied what, from where, as options say it."""

    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    denied_hosts: Sequence[str] = ()
    operations: Sequence[Operation] = ()
    producer: bool = False
    consumer: bool = False
    idempotent: bool = False

    @property
    def names_principals(self) -> bool:
        """Whether somebody is allowed or denied."""
        return bool(self.allowed or self.denied)

    def entries(self, operations: Iterable[Operation]) -> Iterator[Entry]:
        """One entry for each principal, host and operation."""
        for permission, principals, hosts in (
            (Permission.ALLOW, self.allowed, self.allowed_hosts),
            (Permission.DENY, self.denied, self.denied_hosts),
        ):
            for principal, host, operation in product(principals, hosts or (WILDCARD,), operations):
                yield Entry(principal, permission, operation, host)

    def check(self) -> None:
        """Refuse options that do not go together.  Raises: click.UsageError."""
        for option, principals, hosts in (
            ("allow", self.allowed, self.allowed_hosts),
            ("deny", self.denied, self.denied_hosts),
        ):
            if hosts and not principals:
                raise click.UsageError(f"--{option}-host goes with --{option}-principal")
        if self.idempotent and not self.producer:
            raise click.UsageError("--idempotent goes with --producer")
        if (self.producer or self.consumer) and (self.operations or self.denied):
            raise click.UsageError(
                "--producer and --consumer say the operations, and only allow: they exclude"
                " --operation, --deny-principal and --deny-host"
            )


def accesses(
    resources: Sequence[Resource], access: Access
) -> dict[Resource, tuple[Operation, ...]]:
    """The operations on each resource that the options mean.  Raises: click.UsageError."""
    access.check()
    meant: dict[Resource, tuple[Operation, ...]] = {}
    if not access.producer and not access.consumer:
        meant = dict.fromkeys(resources, tuple(access.operations) or (Operation.ALL,))
    if access.producer:
        _need(resources, ResourceType.TOPIC, "--producer needs --topic")
        _add(meant, resources, ResourceType.TOPIC, (_O.WRITE, _O.DESCRIBE, _O.CREATE))
        _add(meant, resources, ResourceType.TRANSACTIONAL_ID, (_O.WRITE, _O.DESCRIBE))
        if access.idempotent:
            meant[(ResourceType.CLUSTER, CLUSTER_NAME)] = (_O.IDEMPOTENT_WRITE,)
    if access.consumer:
        _need(resources, ResourceType.TOPIC, "--consumer needs --topic and --group")
        _need(resources, ResourceType.GROUP, "--consumer needs --topic and --group")
        _add(meant, resources, ResourceType.TOPIC, (_O.READ, _O.DESCRIBE))
        _add(meant, resources, ResourceType.GROUP, (_O.READ,))
    if unused := [resource for resource in resources if resource not in meant]:
        raise click.UsageError(
            f"--producer and --consumer have no use for the {unused[0][0].text} {unused[0][1]!r}"
        )
    for (kind, _), operations in meant.items():
        if wrong := [one for one in operations if one not in SUPPORTED[kind] | {_O.ALL}]:
            known = ", ".join(sorted(one.text for one in SUPPORTED[kind]))
            raise click.UsageError(f"a {kind.text} has no operation {wrong[0].text}: {known}, All")
    return meant


def bindings(
    resources: Sequence[Resource], pattern_type: PatternType, access: Access
) -> list[Binding]:
    """The ACLs to add.  Raises: click.UsageError."""
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise click.UsageError("an ACL to add has --resource-pattern-type literal or prefixed")
    if not access.names_principals:
        raise click.UsageError("whom is it about: give --allow-principal or --deny-principal")
    if not resources:
        raise click.UsageError("what is it about: give --topic, --group, --cluster or another")
    found: dict[Binding, None] = {}
    for (kind, name), operations in accesses(resources, access).items():
        pattern = Pattern(kind, name, _pattern_type(kind, pattern_type))
        for entry in access.entries(operations):
            found[Binding(pattern, entry)] = None
    return list(found)


def filters_to_delete(
    resources: Sequence[Resource],
    pattern_type: PatternType,
    access: Access,
    principals: Sequence[str],
) -> list[Filter]:
    """What to delete: exactly the ACLs that the same options would add; without
    --allow-principal and --deny-principal all of the resources, of --principal, or of both.

    Raises: click.UsageError.
    """
    if access.names_principals:
        if principals:
            raise click.UsageError("--principal excludes --allow-principal and --deny-principal")
        if not resources:
            raise click.UsageError("give the resources; --principal deletes all of somebody's ACLs")
        return [
            _filter(resource, pattern_type, entry)
            for resource, operations in accesses(resources, access).items()
            for entry in access.entries(operations)
        ]
    access.check()
    if access.operations or access.producer or access.consumer:
        raise click.UsageError("whose ACLs: give --allow-principal or --deny-principal, too")
    if not resources and not principals:
        raise click.UsageError("which ACLs: give resources, --principal, or both")
    return filters_to_list(resources, pattern_type, principals)


def filters_to_list(
    resources: Sequence[Resource], pattern_type: PatternType, principals: Sequence[str]
) -> list[Filter]:
    """The ACLs of these resources and principals; of all where there are none."""
    all_resources: Sequence[Resource | None] = resources or (None,)
    all_principals: Sequence[str | None] = principals or (None,)
    return [
        _filter(resource, pattern_type)._replace(principal=principal)
        for resource, principal in product(all_resources, all_principals)
    ]


def sentence(binding: Binding) -> str:
    """An ACL in words: `User:alice may Read Topic orders`."""
    pattern, entry = binding
    verb = "may" if entry.permission is Permission.ALLOW else "may not"
    prefix = "prefix " if pattern.pattern_type is PatternType.PREFIXED else ""
    host = "" if entry.host == WILDCARD else f" from {entry.host}"
    what = f"{pattern.resource_type.text} {prefix}{pattern.name}"
    return f"{entry.principal} {verb} {entry.operation.text} {what}{host}"


def _filter(
    resource: Resource | None, pattern_type: PatternType, entry: Entry | None = None
) -> Filter:
    kind, name = resource or (ResourceType.ANY, None)
    return Filter(
        kind,
        name,
        PatternType.ANY if resource is None else _pattern_type(kind, pattern_type),
        entry and entry.principal,
        entry and entry.host,
        entry.operation if entry else Operation.ANY,
        entry.permission if entry else Permission.ANY,
    )


def _pattern_type(kind: ResourceType, asked: PatternType) -> PatternType:
    """There is one cluster, so that prefixes of its name have no use."""
    return PatternType.LITERAL if kind is ResourceType.CLUSTER else asked


def _add(
    meant: dict[Resource, tuple[Operation, ...]],
    resources: Sequence[Resource],
    kind: ResourceType,
    operations: tuple[Operation, ...],
) -> None:
    for resource in resources:
        if resource[0] is kind:
            meant[resource] = tuple(dict.fromkeys((*meant.get(resource, ()), *operations)))


def _need(resources: Sequence[Resource], kind: ResourceType, complaint: str) -> None:
    if all(resource[0] is not kind for resource in resources):
        raise click.UsageError(complaint)
