"""ACLs in the store: reading them, following their changes, and changing them as Kafka does.

Each pattern's ACLs are in one znode. A change is written with the version that was read, and with
a notification in the same transaction (Kafka: after it). All brokers watch the notifications and
read the znode again. The authorizer keeps what it knows while there is no session.

A znode that is unreadable has an unknown content. If it was readable before, that content stays;
otherwise nobody but super users may use its resources.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused

from ..cluster.store_calls import map_concurrently
from ..coordination import acl_znodes
from ..coordination.interface import (
    BadArguments,
    BadVersion,
    CoordinationLost,
    Create,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    RequestTooLarge,
    Session,
    SessionExpired,
    Set,
    WatchEvent,
)
from ..coordination.json_fields import MalformedZnode
from ..coordination.notifications import newer, newest, purge
from ..core.acls.authorizer import Authorizer
from ..core.acls.terms import (
    CLUSTER_NAME,
    EVERYBODY,
    Binding,
    Entry,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from ..member.membership import make_path
from ..rights.audit import Audit
from ..runtime import Clock
from .store_failures import needs_store

logger = logging.getLogger(__name__)

ABSENT: Final = -1
RETRY_S: Final = 0.5
DENIED: Final = frozenset({Entry(EVERYBODY, Permission.DENY, Operation.ALL)})
"""What counts for a pattern whose znode was never readable."""
_DECODERS: Final = {
    acl_znodes.LITERAL_CHANGES: acl_znodes.decode_literal_change,
    acl_znodes.EXTENDED_CHANGES: acl_znodes.decode_extended_change,
}

Entries = frozenset[Entry]
Change = Callable[[Entries], Entries]


class Acls:
    """The ACLs of the cluster, and the authorizer that decides by them."""

    def __init__(self, session: Session, authorizer: Authorizer, clock: Clock) -> None:
        self.authorizer = authorizer
        self.audit = Audit(clock)
        self._session = session
        self._clock = clock
        self._is_stale = False
        self._changed = asyncio.Event()
        self._changed.set()
        self._handled: dict[str, int] = {}

    # Reading.

    async def load(self) -> None:
        """Create the znodes that are missing, and read all ACLs.  Raises: CoordinationError."""
        for path in acl_znodes.STARTUP_PATHS:
            await make_path(self._session, path)
        await self._read_all()

    async def renew(self) -> None:
        """Have `run` read and watch everything again, in a new session."""
        self._is_stale = True
        self._changed.set()

    async def run(self) -> None:
        """Follow the changes, forever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                for parent in acl_znodes.CHANGES:
                    await self._follow(parent)
                if self._is_stale:
                    await self._read_all()
                    self._is_stale = False
            except (SessionExpired, CoordinationLost) as error:
                logger.info("ACL changes wait for the store error=%s", error)
                self._is_stale = True
                self._changed.set()
                await asyncio.sleep(RETRY_S)

    async def _read_all(self) -> None:
        patterns = set(self.authorizer.index.entries)  # some may be gone
        for pattern_type, root in acl_znodes.ROOTS.items():
            for kind in acl_znodes.RESOURCE_TYPES:
                names = await acl_znodes.children(self._session, f"{root}/{kind.text}")
                patterns.update(Pattern(kind, name, pattern_type) for name in names)
        await map_concurrently(self._read_again, list(patterns))

    async def _read_again(self, pattern: Pattern) -> None:
        try:
            entries, _ = await self._read(pattern)
        except (MalformedZnode, BadArguments) as error:
            path = acl_znodes.acls_path(pattern)
            logger.error("ACLs are unreadable path=%r error=%s", path, error)
            entries = self.authorizer.entries_of(pattern) or DENIED
        self.authorizer.put(pattern, entries)

    async def _read(self, pattern: Pattern) -> tuple[Entries, int]:
        """A pattern's entries, and the version of its znode or ABSENT.  Raises: MalformedZnode."""
        try:
            data, stat = await self._session.get(acl_znodes.acls_path(pattern))
        except NoNode:
            return frozenset(), ABSENT
        return acl_znodes.decode_acls(data), stat.version

    def _on_change(self, event: WatchEvent) -> None:
        self._changed.set()

    async def _follow(self, parent: str) -> None:
        """Read the patterns of new notifications again; delete old notifications, as Kafka does."""
        prefix = acl_znodes.CHANGE_PREFIX
        names = await self._names(parent)
        last, handled = newest(names, prefix), self._handled.get(parent, -1)
        if -1 < last < handled:  # the parent is a new one, which counts from 0
            handled = -1
        paths = [f"{parent}/{name}" for _, name in newer(names, prefix, handled)]
        told = await map_concurrently(self._told, paths)
        patterns = {pattern for pattern in told if pattern is not None}
        await map_concurrently(self._read_again, list(patterns))
        self._handled[parent] = last
        await purge(self._session, parent, names, prefix, wall_ms=self._clock.wall_ms())

    async def _names(self, parent: str) -> list[str]:
        """The notifications, which are watched; if somebody has deleted their parent, a new one."""
        try:
            return await self._session.children(parent, self._on_change)
        except NoNode:
            logger.warning("a znode is missing, and made again path=%s", parent)
            self._is_stale = True  # notifications may have been deleted unread
            self._changed.set()
            await make_path(self._session, parent)
            return []

    async def _told(self, path: str) -> Pattern | None:
        """The pattern of a notification; None if it was deleted, because it is old."""
        try:
            data, _ = await self._session.get(path)
            return _DECODERS[path.rpartition("/")[0]](data)
        except NoNode:
            return None
        except MalformedZnode as error:
            logger.error("ACL change ignored path=%s error=%s", path, error)
            return None

    # Changing.

    async def add(self, pattern: Pattern, entries: Collection[Entry]) -> None:
        """Add entries that `check_new` accepts to a pattern.  Raises: Refused."""
        await self._change(pattern, lambda old: old | frozenset(entries))

    async def remove(self, pattern: Pattern, matches: Callable[[Entry], bool]) -> Entries:
        """Remove the entries that match; return them.  Raises: Refused."""
        removed: Entries = frozenset()

        def remaining(old: Entries) -> Entries:
            nonlocal removed
            removed = frozenset(filter(matches, old))
            return old - removed

        await self._change(pattern, remaining)
        return removed

    @needs_store
    async def _change(self, pattern: Pattern, change: Change) -> None:
        """Write a pattern's new entries; read and change again if another write was faster."""
        while True:
            try:
                old, version = await self._read(pattern)
                new = change(old)
                if new != old:
                    await self._session.multi(_write(pattern, new, version))
            except MalformedZnode as error:
                raise Refused(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"the ACLs of the resource are unreadable: {error}",
                ) from None
            except BadArguments:
                raise Refused(
                    ErrorCode.INVALID_REQUEST, "ZooKeeper can't store a resource of this name"
                ) from None
            except RequestTooLarge as error:
                raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from None
            except MultiFailed as failed:
                if not isinstance(failed.error, BadVersion | NoNode | NodeExists):
                    raise
                for path in acl_znodes.STARTUP_PATHS:  # somebody may have deleted them
                    await make_path(self._session, path)
                continue
            self.authorizer.put(pattern, new)
            return


def _write(pattern: Pattern, entries: Entries, version: int) -> list[Op]:
    path, data = acl_znodes.acls_path(pattern), acl_znodes.encode_acls(entries)
    write: Op
    if not entries:
        write = Delete(path, version)
    else:
        write = Create(path, data) if version == ABSENT else Set(path, data, version)
    notification = acl_znodes.encode_change(pattern)
    return [write, Create(acl_znodes.change_path(pattern), notification, sequential=True)]


def check_new(binding: Binding) -> None:
    """Check that an ACL can be added.  Raises: Refused (INVALID_REQUEST)."""
    fault = _fault(*binding)
    if fault is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, fault)


def _fault(pattern: Pattern, entry: Entry) -> str | None:
    """What is wrong with an ACL; the first two texts are Kafka's."""
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not pattern.name:
        return "Invalid empty resource name"
    if pattern.resource_type not in acl_znodes.RESOURCE_TYPES:
        return "the resource type must be a definite one"
    if pattern.pattern_type not in acl_znodes.ROOTS:
        return "the pattern type must be LITERAL or PREFIXED"
    if "/" in pattern.name:
        return "the name of a resource with ACLs can't contain a slash"
    if ":" not in entry.principal:
        return "a principal has the form User:name"
    if entry.operation in (Operation.UNKNOWN, Operation.ANY):
        return "the operation must be a definite one"
    if entry.permission not in (Permission.ALLOW, Permission.DENY):
        return "the permission type must be ALLOW or DENY"
    return None
