"""The store's contract again, as short as can be: dictionaries, copied for every transaction."""

import copy
from dataclasses import dataclass, field

from odradek.broker.coordination.interface import (
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    EventKind,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    Set,
    WatchEvent,
)


@dataclass
class ModelNode:
    data: bytes = b""
    version: int = 0
    owner: int = 0
    created: int = 0
    changed: int = 0
    """Children created, and children created or deleted."""


@dataclass
class Model:
    """Nodes, and who watches them: (session, path)."""

    nodes: dict[str, ModelNode] = field(default_factory=lambda: {"/": ModelNode()})
    data_watches: set[tuple[int, str]] = field(default_factory=set)
    child_watches: set[tuple[int, str]] = field(default_factory=set)
    heard: list[tuple[int, WatchEvent]] = field(default_factory=list)

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        names = [other.removeprefix(prefix) for other in self.nodes if other.startswith(prefix)]
        return sorted(name for name in names if name and "/" not in name)

    def apply(self, ops: list[Op], session: int) -> tuple[int, type[CoordinationError]] | None:
        """Where it failed, or None."""
        saved = copy.deepcopy((self.nodes, self.data_watches, self.child_watches, self.heard))
        for index, op in enumerate(ops):
            error = self._apply_one(op, session)
            if error is not None:
                self.nodes, self.data_watches, self.child_watches, self.heard = saved
                return index, error
        return None

    def end_session(self, session: int) -> None:
        self.forget_watches(session)
        owned = sorted(path for path, node in self.nodes.items() if node.owner == session)
        assert self.apply([Delete(path) for path in owned], session) is None

    def forget_watches(self, session: int) -> None:
        self.data_watches = {watch for watch in self.data_watches if watch[0] != session}
        self.child_watches = {watch for watch in self.child_watches if watch[0] != session}

    def restart(self) -> None:
        for path, node in list(self.nodes.items()):
            if node.owner:
                del self.nodes[path]
                self.nodes[parent_of(path)].changed += 1
        self.data_watches, self.child_watches = set(), set()

    def _apply_one(self, op: Op, session: int) -> type[CoordinationError] | None:
        if isinstance(op, Create):
            return self._create(op, session)
        node = self.nodes.get(op.path)
        if node is None:
            return NoNode
        if op.version not in (-1, node.version):
            return BadVersion
        if isinstance(op, Set):
            node.data, node.version = op.data, node.version + 1
            self._fire(EventKind.CHANGED, op.path)
        elif isinstance(op, Delete):
            if self.children(op.path):
                return NotEmpty
            del self.nodes[op.path]
            self.nodes[parent_of(op.path)].changed += 1
            self._fire(EventKind.DELETED, op.path)
            self._fire(EventKind.CHILD, parent_of(op.path))
        else:
            assert isinstance(op, Check)
        return None

    def _create(self, op: Create, session: int) -> type[CoordinationError] | None:
        parent = self.nodes.get(parent_of(op.path))
        if parent is None:
            return NoNode
        path = f"{op.path}{parent.created:010d}" if op.sequential else op.path
        if path in self.nodes:
            return NodeExists
        if parent.owner:
            return NoChildrenForEphemerals
        self.nodes[path] = ModelNode(op.data, owner=session if op.ephemeral else 0)
        parent.created += 1
        parent.changed += 1
        self._fire(EventKind.CREATED, path)
        self._fire(EventKind.CHILD, parent_of(path))
        return None

    def _fire(self, kind: EventKind, path: str) -> None:
        watchers = set()
        if kind is not EventKind.CHILD:
            watchers |= {watch for watch in self.data_watches if watch[1] == path}
            self.data_watches -= watchers
        if kind in (EventKind.CHILD, EventKind.DELETED):
            child_watchers = {watch for watch in self.child_watches if watch[1] == path}
            self.child_watches -= child_watchers
            watchers |= child_watchers
        self.heard.extend((session, WatchEvent(kind, path)) for session, _ in sorted(watchers))


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"
