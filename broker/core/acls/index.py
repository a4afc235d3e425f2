"""All ACLs of a cluster, indexed by who they are about.

An entry is about one principal or everybody, from one host or each: such a pair is its *holder*.
For each holder the index has the patterns with what is allowed and denied there, as bit sets of
operations. A decision looks up at most four holders, each with the literal patterns of the resource
and its prefixes. Only lengths that some prefix has are tried. The work does not grow with the
number of ACLs.

Source: AclAuthorizer's authorizeAction and authorizeByResourceType.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from .terms import (
    EVERYBODY,
    WILDCARD,
    Binding,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

Holder = tuple[str, str]
"""A principal and a host, or what stands for each of them."""


class _Bits(NamedTuple):
    """The operations that a holder may do with the resources of a pattern, and may not."""

    allowed: int
    denied: int


NOTHING: Final[frozenset[Entry]] = frozenset()
_IMPLIED_BY: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


def _holder_of(entry: Entry) -> Holder:
    return entry.principal, entry.host


def _bit_set(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in set(operations))


_DENYING: Final = {each: _bit_set((each, Operation.ALL)) for each in Operation}
_ALLOWING: Final = {
    each: _bit_set((each, Operation.ALL, *_IMPLIED_BY.get(each, ()))) for each in Operation
}


class AclIndex:
    """The ACLs, by pattern and by holder."""

    def __init__(self) -> None:
        self._entries: dict[Pattern, frozenset[Entry]] = {}
        self._bits: defaultdict[Holder, dict[Pattern, _Bits]] = defaultdict(dict)
        self._lengths: defaultdict[ResourceType, Counter[int]] = defaultdict(Counter)

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def __iter__(self) -> Iterator[Binding]:
        for pattern, entries in self._entries.items():
            for entry in entries:
                yield Binding(pattern, entry)

    @property
    def entries(self) -> Mapping[Pattern, frozenset[Entry]]:
        """The entries of each pattern that has some."""
        return self._entries

    def put(self, pattern: Pattern, entries: frozenset[Entry]) -> bool:
        """Replace the entries of a pattern; whether that is a change."""
        old = self._entries.get(pattern, NOTHING)
        if old == entries:
            return False
        if entries:
            self._entries[pattern] = entries
        else:
            del self._entries[pattern]
        if pattern.pattern_type is PatternType.PREFIXED and bool(old) != bool(entries):
            self._count_length(pattern, 1 if entries else -1)
        of_changed: dict[Holder, list[Entry]] = {_holder_of(entry): [] for entry in old ^ entries}
        for entry in entries:
            if (holder := _holder_of(entry)) in of_changed:
                of_changed[holder].append(entry)
        for holder, held in of_changed.items():
            self._put_bits(holder, pattern, held)
        return True

    def _count_length(self, pattern: Pattern, by: int) -> None:
        counts, length = self._lengths[pattern.resource_type], len(pattern.name)
        counts[length] += by
        if not counts[length]:
            del counts[length]

    def _put_bits(self, holder: Holder, pattern: Pattern, entries: list[Entry]) -> None:
        if entries:
            self._bits[holder][pattern] = _Bits(
                _bit_set(e.operation for e in entries if e.permission is Permission.ALLOW),
                _bit_set(e.operation for e in entries if e.permission is Permission.DENY),
            )
            return
        del self._bits[holder][pattern]
        if not self._bits[holder]:
            del self._bits[holder]

    # Decisions.

    def allows(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        if_none: bool,
    ) -> bool:
        """Whether the ACLs allow an operation; `if_none` if no ACL is about the resource."""
        patterns = [
            pattern
            for pattern in self._patterns_of(resource_type, name)
            if pattern in self._entries
        ]
        if not patterns:
            return if_none
        allowed = denied = 0
        for held in self._held_by(principal, host):
            for pattern in patterns:
                if (bits := held.get(pattern)) is not None:
                    allowed |= bits.allowed
                    denied |= bits.denied
        return not denied & _DENYING[operation] and bool(allowed & _ALLOWING[operation])

    def allows_some(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        *,
        if_none: bool,
    ) -> bool:
        """Whether there may be a resource of the type on which the operation is allowed.

        No operation implies another here, and `if_none` counts unless all resources are denied.
        """
        mask = _DENYING[operation]
        allowed, denied = set[Pattern](), set[Pattern]()
        for held in self._held_by(principal, host):
            for pattern, bits in held.items():
                if pattern.resource_type is resource_type:
                    if bits.allowed & mask:
                        allowed.add(pattern)
                    if bits.denied & mask:
                        denied.add(pattern)
        each = Pattern(resource_type, WILDCARD)
        if each in denied:
            return False
        if if_none or each in allowed:
            return True
        return any(denied.isdisjoint(self._wider_than(pattern)) for pattern in allowed)

    def _held_by(self, principal: str, host: str) -> list[dict[Pattern, _Bits]]:
        holders = {(p, h) for p in (principal, EVERYBODY) for h in (host, WILDCARD)}
        return [self._bits[holder] for holder in holders if holder in self._bits]

    def _patterns_of(self, resource_type: ResourceType, name: str) -> Iterator[Pattern]:
        """All patterns that may select a resource, whether there are such or not."""
        yield Pattern(resource_type, WILDCARD)
        yield Pattern(resource_type, name)
        yield from self._prefixes_of(resource_type, name)

    def _prefixes_of(self, resource_type: ResourceType, name: str) -> Iterator[Pattern]:
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                yield Pattern(resource_type, name[:length], PatternType.PREFIXED)

    def _wider_than(self, pattern: Pattern) -> Iterator[Pattern]:
        """The patterns that select all that this one does."""
        if pattern.pattern_type is PatternType.LITERAL:
            yield pattern
        yield from self._prefixes_of(pattern.resource_type, pattern.name)
