"""`odradek acls`: who may do what, in the words of kafka-acls."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final

import click

from odradek.broker.core.acls.terms import (
    CLUSTER_NAME,
    Binding,
    Operation,
    PatternType,
    ResourceType,
)
from odradek.spelling import did_you_mean

from .acl_bindings import acls_behind
from .acl_terms import (
    OPERATIONS,
    Access,
    Resource,
    bindings,
    filters_to_delete,
    filters_to_list,
    sentence,
)
from .commands import group
from .doors import Door, door_options
from .options import json_option
from .tables import show_json, show_table

_COLUMNS: Final = (
    *("resource_type", "name", "pattern_type"),
    *("principal", "permission", "operation", "host"),
)
_PATTERN_TYPES: Final = ("literal", "prefixed", "match", "any")
_NAMED: Final = {
    "topics": ResourceType.TOPIC,
    "groups": ResourceType.GROUP,
    "transactional_ids": ResourceType.TRANSACTIONAL_ID,
    "delegation_tokens": ResourceType.DELEGATION_TOKEN,
    "user_principals": ResourceType.USER,
}


@group("acls")
def acls() -> None:
    """List, add and delete access control lists (ACLs).

    The options are those of kafka-acls. Without --data-dir and --zookeeper, in a running cluster.
    """


def _parse_operations(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[Operation, ...]:
    """Read, describe-configs, DESCRIBE_CONFIGS …"""
    known = {text.lower(): operation for text, operation in OPERATIONS.items()}
    found = []
    for value in values:
        operation = known.get(value.lower().replace("_", "").replace("-", ""))
        if operation is None:
            hint = did_you_mean(value, OPERATIONS) or f": one of {', '.join(OPERATIONS)}"
            raise click.BadParameter(f"{value!r} is no operation{hint}", ctx, param)
        found.append(operation)
    return tuple(dict.fromkeys(found))


def _parse_principals(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    for value in values:
        kind, separator, name = value.partition(":")
        if not kind or not separator or not name:
            raise click.BadParameter(f"{value!r} is not like User:alice", ctx, param)
    return tuple(dict.fromkeys(values))


def _many(
    *names: str,
    metavar: str,
    text: str,
    default: str = "",
    parse: Callable[..., Any] | None = None,
) -> Callable[..., Callable[..., None]]:
    explained = f"{text}; may be repeated." + (f" Default: {default}." if default else "")
    return click.option(*names, metavar=metavar, multiple=True, callback=parse, help=explained)


def _resource_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name resources, passed as `resources` and `pattern_type`."""

    @_many("--topic", "topics", metavar="TOPIC", text="A topic, or '*' for ACLs of all topics")
    @_many("--group", "groups", metavar="GROUP", text="A group")
    @click.option("--cluster", "whole_cluster", is_flag=True, help="The cluster itself.")
    @_many("--transactional-id", "transactional_ids", metavar="ID", text="A transactional id")
    @_many("--delegation-token", "delegation_tokens", metavar="ID", text="A delegation token")
    @_many(
        "--user-principal",
        "user_principals",
        metavar="PRINCIPAL",
        text="A user, such as User:alice, whose delegation tokens the ACL covers",
    )
    @click.option(
        "--resource-pattern-type",
        "pattern_type",
        type=click.Choice(_PATTERN_TYPES, case_sensitive=False),
        default="literal",
        show_default=True,
        help="'literal': the resource has this name; 'prefixed': its name begins with it. Only for"
        " list and delete, 'match': all ACLs that apply to the resource; 'any': literal and"
        " prefixed ACLs of this name.",
    )
    @functools.wraps(command)
    def with_resources(whole_cluster: bool, pattern_type: str, **rest: Any) -> None:
        resources: list[Resource] = [
            (kind, name) for key, kind in _NAMED.items() for name in rest.pop(key)
        ]
        if whole_cluster:
            resources.append((ResourceType.CLUSTER, CLUSTER_NAME))
        command(
            resources=list(dict.fromkeys(resources)),
            pattern_type=PatternType[pattern_type.upper()],
            **rest,
        )

    return with_resources


def _access_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say who may do what, passed as one argument `access`."""

    @_many(
        "--allow-principal",
        "allowed",
        metavar="PRINCIPAL",
        text="The principal to allow: User:alice, or 'User:*' for all users",
        parse=_parse_principals,
    )
    @_many(
        "--deny-principal",
        "denied",
        metavar="PRINCIPAL",
        text="The principal to deny, even if another ACL allows it",
        parse=_parse_principals,
    )
    @_many(
        "--allow-host",
        "allowed_hosts",
        metavar="ADDRESS",
        text="An address from which --allow-principal is allowed",
        default="any address",
    )
    @_many(
        "--deny-host",
        "denied_hosts",
        metavar="ADDRESS",
        text="An address from which --deny-principal is denied",
        default="any address",
    )
    @_many(
        "--operation",
        "operations",
        metavar="OPERATION",
        text=f"One of {', '.join(OPERATIONS)}",
        default="All",
        parse=_parse_operations,
    )
    @click.option(
        "--producer",
        is_flag=True,
        help="The operations of a producer: Write, Describe and Create on topics, Write and"
        " Describe on transactional ids.",
    )
    @click.option(
        "--consumer",
        is_flag=True,
        help="The operations of a consumer: Read and Describe on topics, Read on groups.",
    )
    @click.option(
        "--idempotent",
        is_flag=True,
        help="With --producer: also IdempotentWrite on the cluster, which brokers before Kafka 2.8"
        " require.",
    )
    @functools.wraps(command)
    def with_access(**given: Any) -> None:
        access = Access(**{each.name: given.pop(each.name) for each in fields(Access)})
        command(access=access, **given)

    return with_access


_principal_option: Final = _many(
    "--principal",
    "principals",
    metavar="PRINCIPAL",
    text="Only ACLs of this principal",
    parse=_parse_principals,
)


@acls.command("list")
@_resource_options
@_principal_option
@json_option
@door_options
def list_acls(
    door: Door,
    resources: Sequence[Resource],
    pattern_type: PatternType,
    principals: tuple[str, ...],
    as_json: bool,
) -> None:
    """List the ACLs, or those of some resources and principals."""
    with acls_behind(door, writes=False) as found:
        matching = found.matching(filters_to_list(resources, pattern_type, principals))
    documents = [_document(binding) for binding in matching]
    if as_json:
        show_json(documents)
    else:
        columns = [name.replace("_", "-").upper() for name in _COLUMNS]
        show_table(columns, [list(document.values()) for document in documents])


@acls.command()
@_resource_options
@_access_options
@door_options
def add(
    door: Door, resources: Sequence[Resource], pattern_type: PatternType, access: Access
) -> None:
    """Add ACLs, which allow or deny operations on resources."""
    wanted = bindings(resources, pattern_type, access)
    with acls_behind(door, writes=True) as found:
        found.add(wanted)
    for binding in sorted(wanted):
        click.echo(f"added: {sentence(binding)}", err=True)


@acls.command()
@_resource_options
@_access_options
@_principal_option
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, but delete nothing.")
@door_options
def delete(
    door: Door,
    resources: Sequence[Resource],
    pattern_type: PatternType,
    access: Access,
    principals: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Delete ACLs: those that the same options add, or all of a resource or principal."""
    filters = filters_to_delete(resources, pattern_type, access, principals)
    with acls_behind(door, writes=not dry_run) as found:
        deleted = found.matching(filters) if dry_run else found.delete(filters)
    for binding in deleted:
        click.echo(f"{'would delete' if dry_run else 'deleted'}: {sentence(binding)}", err=True)
    if not deleted:
        click.echo("there is no such ACL", err=True)


def _document(binding: Binding) -> dict[str, object]:
    pattern, entry = binding
    cells = (
        *(pattern.resource_type.text, pattern.name, pattern.pattern_type.text),
        *(entry.principal, entry.permission.text, entry.operation.text, entry.host),
    )
    return dict(zip(_COLUMNS, cells, strict=True))
