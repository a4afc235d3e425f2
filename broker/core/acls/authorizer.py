"""The authorizer: whether a principal may do something, from the ACLs and three settings.

Super users may do everything. For everybody else an ACL that denies counts before those that
allow, and what no ACL allows is denied. `allow.everyone.if.no.acl.found` allows everything on
resources that no ACL is about.

The decisions about one principal at one host are remembered until the ACLs change. Clients choose
the names, so there is a limit to how many.
"""

from collections.abc import Collection, Iterable
from typing import Final

from .index import NOTHING, AclIndex
from .terms import Entry, Operation, Pattern, ResourceType

DECISIONS_MAX: Final = 1_000
"""For each principal and host."""
ALL_DECISIONS_MAX: Final = 100_000
HOLDERS_MAX: Final = 1_000
NAME_LENGTH_MAX: Final = 250
"""Decisions about longer names are not remembered."""

Question = tuple[Operation, ResourceType, str]


class Decisions:
    """What one principal at one host may do; valid until the ACLs change."""

    __slots__ = ("_authorizer", "_known", "_known_of_some", "host", "is_super", "principal")

    def __init__(self, authorizer: "Authorizer", principal: str, host: str) -> None:
        self._authorizer = authorizer
        self._known: dict[Question, bool] = {}
        self._known_of_some: dict[tuple[Operation, ResourceType], bool] = {}
        self.principal = principal
        self.host = host
        self.is_super = principal in authorizer.super_users

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the operation on the resource is allowed."""
        if self.is_super:
            return True
        question = operation, resource_type, name
        known = self._known.get(question)
        if known is None:
            known = self._authorizer.index.allows(
                self.principal,
                self.host,
                *question,
                if_none=self._authorizer.allows_everyone_if_none,
            )
            self._keep(question, known)
        return known

    def may_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the operation may be allowed on some resource of the type."""
        if self.is_super:
            return True
        question = operation, resource_type
        known = self._known_of_some.get(question)
        if known is None:
            known = self._known_of_some[question] = self._authorizer.index.allows_some(
                self.principal,
                self.host,
                *question,
                if_none=self._authorizer.allows_everyone_if_none,
            )
        return known

    def _keep(self, question: Question, answer: bool) -> None:
        if len(question[2]) > NAME_LENGTH_MAX:
            return
        if len(self._known) >= DECISIONS_MAX:
            self._known.clear()
        self._known[question] = answer
        self._authorizer.note_kept()


class Authorizer:
    """Decides by the ACLs that it has been told."""

    def __init__(
        self, *, super_users: Iterable[str] = (), allows_everyone_if_none: bool = False
    ) -> None:
        self.super_users: Collection[str] = frozenset(super_users)
        self.allows_everyone_if_none = allows_everyone_if_none
        self.index = AclIndex()
        self.version = 0
        """Grows with each change of the ACLs."""
        self._decisions: dict[tuple[str, str], Decisions] = {}
        self._kept_count = 0

    def put(self, pattern: Pattern, entries: Iterable[Entry]) -> None:
        """Replace the entries of a pattern; without any, the pattern is gone."""
        if self.index.put(pattern, frozenset(entries)):
            self.version += 1
            self._forget()

    def entries_of(self, pattern: Pattern) -> frozenset[Entry]:
        """The entries of a pattern."""
        return self.index.entries.get(pattern, NOTHING)

    def decisions(self, principal: str, host: str) -> Decisions:
        """What is decided for a principal at a host; ask again for each request."""
        key = principal, host
        found = self._decisions.get(key)
        if found is None:
            if len(self._decisions) >= HOLDERS_MAX:
                self._forget()
            found = self._decisions[key] = Decisions(self, principal, host)
        return found

    def note_kept(self) -> None:
        """Take note that one more decision is remembered."""
        self._kept_count += 1
        if self._kept_count >= ALL_DECISIONS_MAX:
            self._forget()

    def _forget(self) -> None:
        self._decisions.clear()
        self._kept_count = 0
