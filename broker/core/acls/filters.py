"""Filters of DescribeAcls and DeleteAcls: which ACLs they match.

Source: ResourcePatternFilter, AccessControlEntryFilter, AclBindingFilter.
"""

from typing import NamedTuple

from .terms import (
    WILDCARD,
    Binding,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)


class Filter(NamedTuple):
    """One filter; ANY and None match each value."""

    resource_type: ResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission: Permission

    @property
    def has_unknown(self) -> bool:
        """Whether a field has a value that this broker does not know."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def matches(self, binding: Binding) -> bool:
        """Whether the filter matches an ACL."""
        return self.matches_pattern(binding.pattern) and self.matches_entry(binding.entry)

    def matches_entry(self, entry: Entry) -> bool:
        """Whether the filter matches an entry, whatever its pattern."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    def matches_pattern(self, pattern: Pattern) -> bool:
        """Whether the filter matches a pattern.

        With MATCH its name is that of a resource, which the pattern must select.
        """
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)

    def exact_patterns(self) -> list[Pattern]:
        """The patterns that the filter can match, if it names them; else none."""
        if self.resource_type is ResourceType.ANY or self.name is None:
            return []
        return [
            Pattern(self.resource_type, self.name, kind)
            for kind in (PatternType.LITERAL, PatternType.PREFIXED)
            if self.pattern_type in (PatternType.ANY, kind)
        ]
