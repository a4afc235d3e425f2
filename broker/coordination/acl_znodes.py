"""Kafka's znodes of ACLs: their paths, the values stored there, the notifications of changes.

The ACLs of literal patterns and those of prefixed ones are in trees of their own, one znode for
each pattern. A change adds a notification, whose form differs between the two.

Source: ZkAclStore, ExtendedAclZNode, AclEntry, LiteralAclChangeStore, ExtendedAclChangeStore.
"""

from collections.abc import Iterable
from typing import Final

from ..core.acls.terms import Entry, Operation, Pattern, PatternType, Permission, ResourceType
from .interface import NoNode, Session
from .json_fields import Fields, MalformedZnode, decode_object, encode_object

LITERAL_ACLS: Final = "/kafka-acl"
EXTENDED_ACLS: Final = "/kafka-acl-extended"
LITERAL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"
CHANGE_PREFIX: Final = "acl_changes_"
ROOTS: Final = {
    PatternType.LITERAL: LITERAL_ACLS,
    PatternType.PREFIXED: f"{EXTENDED_ACLS}/prefixed",
}
"""The znodes below which the resource types are."""
CHANGES: Final = (LITERAL_CHANGES, EXTENDED_CHANGES)
RESOURCE_TYPES: Final = tuple(
    kind for kind in ResourceType if kind not in (ResourceType.UNKNOWN, ResourceType.ANY)
)
STARTUP_PATHS: Final = (
    *(f"{root}/{kind.text}" for root in ROOTS.values() for kind in RESOURCE_TYPES),
    *CHANGES,
)
"""Persistent znodes without data, which an authorizer creates at startup if they are missing."""
VERSION: Final = 1


def acls_path(pattern: Pattern) -> str:
    """The path of a pattern's ACLs."""
    return f"{ROOTS[pattern.pattern_type]}/{pattern.resource_type.text}/{pattern.name}"


async def children(session: Session, path: str) -> list[str]:
    """The names of a node's children; none if it does not exist."""
    try:
        return await session.children(path)
    except NoNode:
        return []


async def has_acls(session: Session) -> bool:
    """Whether the store has at least one ACL."""
    for root in ROOTS.values():
        for kind in RESOURCE_TYPES:
            if await children(session, f"{root}/{kind.text}"):
                return True
    return False


def encode_acls(entries: Iterable[Entry]) -> bytes:
    """The ACLs of a pattern, in a fixed order: Kafka's is that of hash codes."""
    return encode_object(
        {
            "acls": [
                {
                    "principal": entry.principal,
                    "permissionType": entry.permission.text,
                    "host": entry.host,
                    "operation": entry.operation.text,
                }
                for entry in sorted(entries)
            ],
            "version": VERSION,
        }
    )


def decode_acls(data: bytes) -> frozenset[Entry]:
    """The reverse; a znode without data has no ACLs.  Raises: MalformedZnode."""
    if not data:
        return frozenset()
    fields = decode_object("ACLs", data)
    if fields.int32("version") != VERSION:
        raise MalformedZnode(f"ACLs: version {fields.int32('version')} is unknown")
    return frozenset(map(_decode_entry, fields.mappings("acls")))


def _decode_entry(fields: Fields) -> Entry:
    operation = Operation.of_text(fields.text("operation"))
    permission = Permission.of_text(fields.text("permissionType"))
    if operation in (None, Operation.UNKNOWN, Operation.ANY):
        raise MalformedZnode(f"ACLs: {fields.text('operation')[:100]!r} is no operation")
    if permission not in (Permission.ALLOW, Permission.DENY):
        raise MalformedZnode(f"ACLs: {fields.text('permissionType')[:100]!r} is no permission type")
    assert operation is not None
    return Entry(fields.text("principal"), permission, operation, fields.text("host"))


def change_path(pattern: Pattern) -> str:
    """The prefix of the path of a notification that a pattern's ACLs have changed."""
    is_literal = pattern.pattern_type is PatternType.LITERAL
    return f"{LITERAL_CHANGES if is_literal else EXTENDED_CHANGES}/{CHANGE_PREFIX}"


def encode_change(pattern: Pattern) -> bytes:
    """A notification."""
    kind = pattern.resource_type.name
    if pattern.pattern_type is PatternType.LITERAL:
        return f"{kind}:{pattern.name}".encode()
    return encode_object(
        {
            "version": VERSION,
            "resourceType": kind,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
        }
    )


def decode_literal_change(data: bytes) -> Pattern:
    """A notification below LITERAL_CHANGES.  Raises: MalformedZnode."""
    try:
        kind, separator, name = data.decode().partition(":")
    except UnicodeDecodeError as error:
        raise MalformedZnode(f"ACL change: {error}") from error
    if not separator or not name:
        raise MalformedZnode(f"ACL change: {data[:100]!r} names no resource")
    return Pattern(_resource_type(kind), name)


def decode_extended_change(data: bytes) -> Pattern:
    """A notification below EXTENDED_CHANGES.  Raises: MalformedZnode."""
    fields = decode_object("ACL change", data)
    pattern_type = _named(PatternType, fields.text("patternType"))
    if pattern_type not in ROOTS or not fields.text("name"):
        raise MalformedZnode("ACL change: it names no pattern")
    return Pattern(
        _resource_type(fields.text("resourceType")), fields.text("name"), PatternType(pattern_type)
    )


def _resource_type(text: str) -> ResourceType:
    kind = _named(ResourceType, text)
    if kind not in RESOURCE_TYPES:
        raise MalformedZnode(f"ACL change: {text[:100]!r} is no resource type")
    return ResourceType(kind)


def _named(terms: type[ResourceType] | type[PatternType], text: str) -> int | None:
    """The term of a name, whether it is written TRANSACTIONAL_ID or TransactionalId."""
    return terms.of_text(text.replace("_", ""))
