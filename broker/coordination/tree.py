"""The embedded store's tree of nodes in memory: no I/O, one transaction at a time.

All changes go through `_replace`, which keeps the three views (nodes, children, ephemerals)
consistent. A transaction records the previous nodes, and is undone by restoring them in reverse.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .interface import (
    ANY_VERSION,
    BadArguments,
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    EventKind,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    Result,
    Set,
    Stat,
    WatchEvent,
)
from .paths import check_path, split_path


class Node(NamedTuple):
    """A node without its children, which are in `Tree`."""

    data: bytes
    czxid: int
    mzxid: int
    pzxid: int
    version: int
    children_created: int
    """As in ZooKeeper, the suffix of the next sequential child; cversion is derived from it."""
    ctime_ms: int
    mtime_ms: int
    ephemeral_owner: int = 0


class Changes(NamedTuple):
    """The results of a transaction, and the events that it caused."""

    results: list[Result]
    events: list[WatchEvent]


class Tree:
    """All nodes of a store.  `zxid` is the number of the last transaction."""

    def __init__(self, nodes: Iterable[tuple[str, Node]] = (), zxid: int = 0) -> None:
        """Raises: ValueError, BadArguments if these nodes do not form a tree."""
        self.zxid = zxid
        self._nodes: dict[str, Node] = {"/": Node(b"", 0, 0, 0, 0, 0, 0, 0)}
        self._children: dict[str, set[str]] = {}
        self._ephemerals: dict[int, set[str]] = {}
        self._unsaved: dict[str, None] = {}  # a set that keeps its order
        for path, node in nodes:
            check_path(path)
            self._replace(path, node)
        for path, node in self._nodes.items():
            if split_path(path)[0] not in self._nodes:
                raise ValueError(f"node {path} has no parent")
            if max(node.czxid, node.mzxid, node.pzxid) > zxid:
                raise ValueError(f"node {path} is newer than transaction {zxid}")

    def __len__(self) -> int:
        return len(self._nodes)

    # --- reading

    def get(self, path: str) -> tuple[bytes, Stat]:
        """The data and Stat of a node.  Raises: BadArguments, NoNode."""
        check_path(path)
        return self._node(path).data, self._stat(path)

    def exists(self, path: str) -> Stat | None:
        """The Stat of a node, or None.  Raises: BadArguments."""
        check_path(path)
        return self._stat(path) if path in self._nodes else None

    def children(self, path: str) -> list[str]:
        """The names of a node's children, sorted.  Raises: BadArguments, NoNode."""
        check_path(path)
        self._node(path)
        return sorted(self._children.get(path, ()))

    def lasting(self) -> Iterator[tuple[str, Node]]:
        """All nodes that no session owns, in no order."""
        return ((path, node) for path, node in self._nodes.items() if not node.ephemeral_owner)

    def _node(self, path: str) -> Node:
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def _stat(self, path: str) -> Stat:
        node = self._nodes[path]
        num_children = len(self._children.get(path, ()))
        return Stat(
            czxid=node.czxid,
            mzxid=node.mzxid,
            version=node.version,
            # as in ZooKeeper: counts creations and deletions
            cversion=2 * node.children_created - num_children,
            ephemeral_owner=node.ephemeral_owner,
            ctime_ms=node.ctime_ms,
            mtime_ms=node.mtime_ms,
            data_length=len(node.data),
            num_children=num_children,
            pzxid=node.pzxid,
        )

    # --- writing

    def apply(self, ops: Sequence[Op], *, session_id: int, wall_ms: int) -> Changes:
        """Apply all of `ops` in one transaction, or none.  Raises: MultiFailed.

        Only a transaction that changes nodes takes a zxid.
        """
        transaction = _Transaction(self.zxid + 1, session_id, wall_ms)
        results: list[Result] = []
        for index, op in enumerate(ops):
            try:
                results.append(self._apply_one(op, transaction))
            except CoordinationError as error:
                for path, node in reversed(transaction.replaced):
                    self._replace(path, node)
                raise MultiFailed(index, error) from error
        if transaction.replaced:
            self.zxid += 1
            self._unsaved.update((path, None) for path, _ in transaction.replaced)
        return Changes(results, transaction.events)

    def take_zxid(self) -> int:
        """Take the zxid of a transaction that changes no node."""
        self.zxid += 1
        return self.zxid

    def end_session(self, session_id: int, *, wall_ms: int) -> list[WatchEvent]:
        """Delete what the session owns, in one transaction."""
        ops = [Delete(path) for path in sorted(self._ephemerals.get(session_id, ()))]
        return self.apply(ops, session_id=session_id, wall_ms=wall_ms).events

    def take_unsaved(self) -> list[tuple[str, Node | None]]:
        """The changes since the last call: each path with its node, or None if it was deleted.

        Ephemeral nodes count as deleted: their sessions do not outlive the process.
        """
        unsaved, self._unsaved = self._unsaved, {}
        changes: list[tuple[str, Node | None]] = []
        for path in unsaved:
            node = self._nodes.get(path)
            changes.append((path, None if node is None or node.ephemeral_owner else node))
        return changes

    def _apply_one(self, op: Op, transaction: "_Transaction") -> Result:
        check_path(op.path, sequential=isinstance(op, Create) and op.sequential)
        match op:
            case Create():
                return self._create(op, transaction)
            case Set():
                return self._set(op, transaction)
            case Delete():
                self._delete(op, transaction)
                return None
            case Check():
                self._versioned(op.path, op.version)
                return None

    def _create(self, op: Create, transaction: "_Transaction") -> str:
        parent_path, _ = split_path(op.path)
        parent = self._node(parent_path)
        path = f"{op.path}{parent.children_created:010d}" if op.sequential else op.path
        if path in self._nodes:
            raise NodeExists(path)
        if parent.ephemeral_owner:
            raise NoChildrenForEphemerals(path)
        zxid, wall_ms = transaction.zxid, transaction.wall_ms
        owner = transaction.session_id if op.ephemeral else 0
        grown = parent._replace(pzxid=zxid, children_created=parent.children_created + 1)
        self._change(
            path, Node(op.data, zxid, zxid, zxid, 0, 0, wall_ms, wall_ms, owner), transaction
        )
        self._change(parent_path, grown, transaction)
        transaction.events.append(WatchEvent(EventKind.CREATED, path))
        transaction.events.append(WatchEvent(EventKind.CHILD, parent_path))
        return path

    def _set(self, op: Set, transaction: "_Transaction") -> Stat:
        node = self._versioned(op.path, op.version)
        changed = node._replace(
            data=op.data,
            mzxid=transaction.zxid,
            version=node.version + 1,
            mtime_ms=transaction.wall_ms,
        )
        self._change(op.path, changed, transaction)
        transaction.events.append(WatchEvent(EventKind.CHANGED, op.path))
        return self._stat(op.path)

    def _delete(self, op: Delete, transaction: "_Transaction") -> None:
        if op.path == "/":
            raise BadArguments("the root cannot be deleted")
        self._versioned(op.path, op.version)
        if self._children.get(op.path):
            raise NotEmpty(op.path)
        parent_path, _ = split_path(op.path)
        self._change(op.path, None, transaction)
        shrunk = self._nodes[parent_path]._replace(pzxid=transaction.zxid)
        self._change(parent_path, shrunk, transaction)
        transaction.events.append(WatchEvent(EventKind.DELETED, op.path))
        transaction.events.append(WatchEvent(EventKind.CHILD, parent_path))

    def _versioned(self, path: str, version: int) -> Node:
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(f"{path} has version {node.version}, expected {version}")
        return node

    def _change(self, path: str, node: Node | None, transaction: "_Transaction") -> None:
        transaction.replaced.append((path, self._nodes.get(path)))
        self._replace(path, node)

    def _replace(self, path: str, node: Node | None) -> None:
        """Put, overwrite or (None) remove a node, in all views."""
        old = self._nodes.get(path)
        if old is not None and old.ephemeral_owner:
            owned = self._ephemerals[old.ephemeral_owner]
            owned.discard(path)
            if not owned:
                del self._ephemerals[old.ephemeral_owner]
        if node is None:
            del self._nodes[path]
        else:
            self._nodes[path] = node
            if node.ephemeral_owner:
                self._ephemerals.setdefault(node.ephemeral_owner, set()).add(path)
        if (old is None) != (node is None):
            self._replace_child(path, present=node is not None)

    def _replace_child(self, path: str, *, present: bool) -> None:
        parent_path, name = split_path(path)
        if present:
            self._children.setdefault(parent_path, set()).add(name)
            return
        siblings = self._children[parent_path]
        siblings.discard(name)
        if not siblings:
            del self._children[parent_path]


class _Transaction:
    """A transaction in progress, and the nodes replaced so far, oldest first."""

    __slots__ = ("events", "replaced", "session_id", "wall_ms", "zxid")

    def __init__(self, zxid: int, session_id: int, wall_ms: int) -> None:
        self.zxid = zxid
        self.session_id = session_id
        self.wall_ms = wall_ms
        self.replaced: list[tuple[str, Node | None]] = []
        self.events: list[WatchEvent] = []
