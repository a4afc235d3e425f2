"""The interface of the broker's coordination store: ZooKeeper's contract, asynchronous.

Every implementation guarantees this order:
- The operations of one session take effect in the order in which they were called.
- An operation is answered once it is durable; a read returns durable state only.
- Results and watch events arrive on the event loop in the order of their transactions, and a watch
  event arrives before any answer that shows the change.

Watches fire once.  `get` and `exists` set a data watch (CREATED, CHANGED, DELETED; `exists` also on
a missing node), `children` sets a child watch (CHILD, DELETED).  Setting the same callback twice on
a path has the effect of setting it once.  A call that raises sets no watch.  Watches end silently
with their session.  A callback runs on the loop and must not block.

A watch may also fire without a change: after a reconnection every watch fires once (CHANGED for a
data watch, CHILD for a child watch), because changes may have been missed.  A callback must
therefore cause the node to be read and watched again.

If the connection is lost before a write is answered, the store checks afterwards whether it took
effect, and raises CoordinationLost only if that cannot be determined.  It compares owner, version
and data: a caller that must not mistake another client's write for its own writes unique data.  A
read is repeated, and may show the effect of later operations of the session.

Cancelling a waiting caller does not undo its operation.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

ANY_VERSION = -1
REQUEST_SIZE_BYTES_MAX = 1 << 20
"""Paths and data of one operation, or of all operations of one multi.  It equals ZooKeeper's
default jute.maxbuffer; a server drops a connection that sends more."""


class CoordinationError(Exception):
    """An operation on the store failed."""


class NoNode(CoordinationError):
    """The node, or the parent of a node to create, does not exist."""


class NodeExists(CoordinationError):
    """A node to create exists already."""


class BadVersion(CoordinationError):
    """The node's version is not the expected one."""


class NotEmpty(CoordinationError):
    """A node to delete has children."""


class NoChildrenForEphemerals(CoordinationError):
    """The parent of a node to create is ephemeral."""


class BadArguments(CoordinationError):
    """The path is malformed, or the operation is not allowed on it.  Nothing was sent."""


class NotAllowed(CoordinationError):
    """The node's ACL denies this client the operation."""


class RequestTooLarge(CoordinationError):
    """The operation is larger than REQUEST_SIZE_BYTES_MAX.  Nothing was sent."""


class SessionExpired(CoordinationError):
    """The session has ended, its ephemeral nodes are gone; open a new one."""


class CoordinationLost(CoordinationError):
    """The store is gone; whether the operation took effect is unknown.  `__cause__` says why."""


class StoreError(CoordinationError):
    """The store cannot be opened; the message is one sentence for the operator."""


class MultiFailed(CoordinationError):
    """No operation of a multi took effect, because the one at `index` failed with `error`."""

    def __init__(self, index: int, error: CoordinationError) -> None:
        super().__init__(f"operation {index}: {type(error).__name__}: {error}")
        self.index = index
        self.error = error


class Stat(NamedTuple):
    """ZooKeeper's Stat.  `czxid`, `mzxid`, `pzxid`: the transaction that created the node, last
    changed its data, last changed its set of children."""

    czxid: int
    mzxid: int
    version: int
    cversion: int
    ephemeral_owner: int
    ctime_ms: int
    mtime_ms: int
    data_length: int
    num_children: int
    pzxid: int


class EventKind(Enum):
    """The kind of change that a watch reports."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILD = "child"


class WatchEvent(NamedTuple):
    """One change of one node; of its children, if the kind is CHILD."""

    kind: EventKind
    path: str


Watch = Callable[[WatchEvent], None]


class Check(NamedTuple):
    """Require that the node exists and has this version."""

    path: str
    version: int = ANY_VERSION


class Create(NamedTuple):
    """Create a node; the result is its path, with the suffix if it is sequential."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class Set(NamedTuple):
    """Replace the data of a node of this version; the result is its new Stat."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete a node of this version that has no children."""

    path: str
    version: int = ANY_VERSION


Op = Check | Create | Set | Delete
Result = str | Stat | None
"""The result of a Create (str), a Set (Stat), and a Check or Delete (None)."""


class Session(Protocol):
    """One client of the store.  Owns its ephemeral nodes and its watches.

    Every operation may raise BadArguments, NotAllowed, SessionExpired and CoordinationLost.
    """

    @property
    def id(self) -> int:
        """`Stat.ephemeral_owner` of the session's nodes.  Never reused, even after a restart."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node; return its path.  A sequential node's name gets ten digits appended.

        Raises: NoNode, NodeExists, NoChildrenForEphemerals, RequestTooLarge.
        """
        ...

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """The data of a node.  Raises: NoNode."""
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data of a node.  Raises: NoNode, BadVersion, RequestTooLarge."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node without children.  Raises: NoNode, BadVersion, NotEmpty."""
        ...

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The Stat of a node, or None."""
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of a node's children, sorted.  Raises: NoNode."""
        ...

    async def multi(self, ops: Sequence[Op]) -> list[Result]:
        """Apply all of `ops` in one transaction, or none of them.

        Raises: MultiFailed, RequestTooLarge (all operations together).
        """
        ...

    async def close(self) -> None:
        """Delete the ephemeral nodes and end the session.  Idempotent."""
        ...


class Store(Protocol):
    """Opens sessions."""

    async def open_session(
        self, timeout_ms: int, on_end: Callable[[CoordinationError], None] | None = None
    ) -> Session:
        """Open a session that survives `timeout_ms` without contact.

        `on_end` is called once, on the loop, if the session ends other than by its own `close` or
        the store's: with SessionExpired, or with CoordinationLost if the store is gone.
        Raises: CoordinationLost.
        """
        ...

    async def close(self) -> None:
        """End every session and release the store.  Pending operations are finished first."""
        ...
