"""The terms of access control lists: resources, operations, patterns, permissions.

The numbers are those of Kafka's protocol. The names, as Kafka writes them in ZooKeeper and in
error messages, are in CamelCase.

Source: ResourceType, AclOperation, PatternType, AclPermissionType, AccessControlEntry.
"""

from enum import IntEnum
from typing import Final, NamedTuple, Self

WILDCARD: Final = "*"
"""The name of a literal pattern that matches each resource; as a host, each host."""
EVERYBODY: Final = "User:*"
"""The principal of entries that are about everybody."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class _Term(IntEnum):
    @property
    def text(self) -> str:
        """The name as Kafka writes it."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        """The member that Kafka writes so; None: there is none."""
        return next((term for term in cls if term.text.lower() == text.lower()), None)

    @classmethod
    def of_code(cls, code: int) -> Self:
        """The member of this number in the protocol; of any other number UNKNOWN."""
        return cls(code if code in cls._value2member_map_ else 0)


class ResourceType(_Term):
    """The kinds of resources that ACLs are about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(_Term):
    """What somebody may do with a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class PatternType(_Term):
    """How a pattern's name selects resources.  ANY and MATCH occur only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(_Term):
    """Whether an entry allows its operation or denies it."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Pattern(NamedTuple):
    """The resources that an ACL is about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def covers(self, resource_type: ResourceType, name: str) -> bool:
        """Whether the pattern selects a resource."""
        if self.resource_type is not resource_type:
            return False
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class Entry(NamedTuple):
    """Who may do what, or may not, with the resources of a pattern."""

    principal: str
    permission: Permission
    operation: Operation
    host: str = WILDCARD


class Binding(NamedTuple):
    """One ACL: a pattern with one entry."""

    pattern: Pattern
    entry: Entry
