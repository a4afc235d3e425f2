"""The ACLs of a cluster: in a store, or kept by its brokers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Final, Protocol

from odradek.broker.administration.acls import Acls, check_new
from odradek.broker.coordination import acl_znodes
from odradek.broker.coordination.interface import NoNode, Session
from odradek.broker.core.acls.authorizer import Authorizer
from odradek.broker.core.acls.creations import creations_of
from odradek.broker.core.acls.filters import Filter
from odradek.broker.core.acls.terms import (
    Binding,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from odradek.protocol.errors import Refused
from odradek.protocol.messages.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
from odradek.protocol.messages.k30_create_acls import (
    CreateAclsRequest,
    CreateAclsResponse,
)
from odradek.protocol.messages.k31_delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

from .acl_terms import sentence
from .brokers import Brokers, brokers_of, refusal
from .doors import Door, Stored
from .errors import CommandError

PREFIXES_FIRST: Final = 1  # before, all patterns are literal


class AclStore(Protocol):
    """The ACLs of a cluster.  Every method may raise CommandError."""

    def matching(self, filters: Sequence[Filter]) -> list[Binding]:
        """The ACLs that one of the filters matches, sorted."""
        ...

    def add(self, bindings: Sequence[Binding]) -> None:
        """Add ACLs; some may be there already."""
        ...

    def delete(self, filters: Sequence[Filter]) -> list[Binding]:
        """Delete what the filters match; return that, sorted."""
        ...


@contextmanager
def acls_behind(door: Door, *, writes: bool) -> Iterator[AclStore]:
    """The ACLs in the store or cluster.  Raises: CommandError."""
    if door.is_store:
        with door.open(writes=writes) as stored:
            yield StoredAcls(stored)
    else:
        with brokers_of(door.cluster) as brokers:
            yield ClusterAcls(brokers)


class StoredAcls:
    """ACLs in a store, in the nodes of Kafka's AclAuthorizer.

    Brokers that run are told of a change as by another broker.
    """

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._acls = Acls(stored.session, Authorizer(), stored.clock)

    def matching(self, filters: Sequence[Filter]) -> list[Binding]:
        """As `AclStore`."""
        bindings = self._stored.run(_read(self._stored.session))
        return sorted(b for b in bindings if any(one.matches(b) for one in filters))

    def add(self, bindings: Sequence[Binding]) -> None:
        """As `AclStore`."""
        for binding in bindings:
            try:
                check_new(binding)
            except Refused as refused:
                raise CommandError(f"{sentence(binding)}: {refused.message}") from None
        for pattern, entries in _by_pattern(bindings):
            self._stored.run(self._acls.add(pattern, entries))

    def delete(self, filters: Sequence[Filter]) -> list[Binding]:
        """As `AclStore`."""
        found = self.matching(filters)
        for pattern, entries in _by_pattern(found):
            self._stored.run(self._acls.remove(pattern, entries.__contains__))
        return found


def _by_pattern(bindings: Sequence[Binding]) -> Iterator[tuple[Pattern, frozenset[Entry]]]:
    for pattern, group in groupby(sorted(bindings), lambda binding: binding.pattern):
        yield pattern, frozenset(binding.entry for binding in group)


async def _read(session: Session) -> list[Binding]:
    """All ACLs; nothing is created.  Raises: MalformedZnode."""
    found = []
    for pattern_type, root in acl_znodes.ROOTS.items():
        for kind in acl_znodes.RESOURCE_TYPES:
            for name in await acl_znodes.children(session, f"{root}/{kind.text}"):
                pattern = Pattern(kind, name, pattern_type)
                try:
                    data, _ = await session.get(acl_znodes.acls_path(pattern))
                except NoNode:  # just deleted
                    continue
                found += [Binding(pattern, entry) for entry in acl_znodes.decode_acls(data)]
    return found


class ClusterAcls:
    """ACLs that brokers keep (KIP-140)."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def matching(self, filters: Sequence[Filter]) -> list[Binding]:
        """As `AclStore`."""
        found: set[Binding] = set()
        for one in filters:
            request = DescribeAclsRequest(
                resource_type_filter=one.resource_type,
                resource_name_filter=one.name,
                pattern_type_filter=one.pattern_type,
                principal_filter=one.principal,
                host_filter=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            answer = self._brokers.ask(request, DescribeAclsResponse, first=PREFIXES_FIRST)
            if answer.error_code:
                raise refusal("ACLs", answer.error_code, answer.error_message)
            for resource in answer.resources:
                pattern = _pattern(
                    resource.resource_type, resource.resource_name, resource.pattern_type
                )
                for acl in resource.acls:
                    entry = _entry(acl.principal, acl.host, acl.operation, acl.permission_type)
                    found.add(Binding(pattern, entry))
        return sorted(found)

    def add(self, bindings: Sequence[Binding]) -> None:
        """As `AclStore`."""
        request = CreateAclsRequest(creations=creations_of(bindings))
        answer = self._brokers.ask(request, CreateAclsResponse, first=PREFIXES_FIRST)
        for (pattern, _), result in zip(bindings, answer.results, strict=True):
            if result.error_code:
                what = f"{pattern.resource_type.text} {pattern.name}"
                raise refusal(what, result.error_code, result.error_message)

    def delete(self, filters: Sequence[Filter]) -> list[Binding]:
        """As `AclStore`."""
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=one.resource_type,
                    resource_name_filter=one.name,
                    pattern_type_filter=one.pattern_type,
                    principal_filter=one.principal,
                    host_filter=one.host,
                    operation=one.operation,
                    permission_type=one.permission,
                )
                for one in filters
            ]
        )
        answer = self._brokers.ask(request, DeleteAclsResponse, first=PREFIXES_FIRST)
        deleted: set[Binding] = set()
        for result in answer.filter_results:
            if result.error_code:
                raise refusal("ACLs", result.error_code, result.error_message)
            for acl in result.matching_acls:
                if acl.error_code:
                    raise refusal(acl.resource_name, acl.error_code, acl.error_message)
                pattern = _pattern(acl.resource_type, acl.resource_name, acl.pattern_type)
                entry = _entry(acl.principal, acl.host, acl.operation, acl.permission_type)
                deleted.add(Binding(pattern, entry))
        return sorted(deleted)


def _pattern(kind: int, name: str, pattern_type: int) -> Pattern:
    return Pattern(ResourceType.of_code(kind), name, PatternType.of_code(pattern_type))


def _entry(principal: str, host: str, operation: int, permission: int) -> Entry:
    return Entry(principal, Permission.of_code(permission), Operation.of_code(operation), host)
