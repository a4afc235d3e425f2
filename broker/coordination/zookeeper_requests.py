"""A session's requests to ZooKeeper: converting them to kazoo's form, and the answers back.

Every write is a multi, even a single operation: kazoo answers a multi directly, but a create
through a second result object, which would arrive late.  Imported only where kazoo is used.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kazoo import exceptions as kazoo_errors
from kazoo.protocol import serialization

from .interface import (
    BadArguments,
    BadVersion,
    Check,
    CoordinationError,
    CoordinationLost,
    Create,
    Delete,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotAllowed,
    NotEmpty,
    Op,
    RequestTooLarge,
    Result,
    SessionExpired,
    Set,
    Stat,
    Watch,
)
from .zookeeper_handler import Answer

REQUEST_BYTES_MAX: Final = 0xFFFFF - 64
"""ZooKeeper's jute.maxbuffer, less the overhead of a request."""
EPHEMERAL: Final = 1
SEQUENTIAL: Final = 2
NOT_TO_BLAME: Final = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
ERRORS: Final[dict[type[Exception], type[CoordinationError]]] = {
    kazoo_errors.NoNodeError: NoNode,
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.BadVersionError: BadVersion,
    kazoo_errors.NotEmptyError: NotEmpty,
    kazoo_errors.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    kazoo_errors.BadArgumentsError: BadArguments,
    kazoo_errors.MarshallingError: BadArguments,
    kazoo_errors.NoAuthError: NotAllowed,
    kazoo_errors.InvalidACLError: NotAllowed,
    kazoo_errors.SessionExpiredError: SessionExpired,
    kazoo_errors.ConnectionClosedError: SessionExpired,
}

AclOf = Callable[[str], Any]
"""Path -> kazoo's list of ACLs for a new node there."""


class Below:
    """The paths of a tree below a chroot, which is empty or like "/a/b"."""

    def __init__(self, chroot: str, acl_of: AclOf) -> None:
        self.chroot = chroot
        self.acl_of = acl_of

    def full(self, path: str) -> str:
        """The path on the server."""
        return path if not self.chroot else self.chroot + (path if path != "/" else "")

    def short(self, full: str) -> str:
        """The path below the chroot."""
        return full[len(self.chroot) :] or "/"


@dataclass(slots=True, eq=False)
class Request:
    """One operation in progress.  Its caller awaits `answer`."""

    answer: asyncio.Future[Any]
    since_zxid: int = 0
    """Set when the connection is lost: if it took effect, its zxid is greater than this."""
    cut_count: int = 0

    def send(self, client: Any, below: Below) -> Answer:
        """Queue the request with kazoo."""
        raise NotImplementedError

    def result(self, value: Any, below: Below) -> Any:
        """Convert kazoo's result for the caller.  Raises: CoordinationError."""
        raise NotImplementedError

    def error(self, exception: Exception) -> CoordinationError:
        """Convert kazoo's error for the caller."""
        raise NotImplementedError

    def fail(self, error: CoordinationError) -> None:
        """Fail the caller's future, unless it is done already."""
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(slots=True, eq=False)
class Read(Request):
    """A get, exists or children operation, according to `kind`."""

    kind: str = "get"
    path: str = "/"
    watch: Watch | None = None
    on_event: Callable[[Any], None] | None = None

    def send(self, client: Any, below: Below) -> Answer:
        """Queue the request with kazoo."""
        path, watch = below.full(self.path), self.on_event if self.watch is not None else None
        answer: Answer
        if self.kind == "get":
            answer = client.get_async(path, watch)
        elif self.kind == "exists":
            answer = client.exists_async(path, watch)
        else:
            answer = client.get_children_async(path, watch)
        return answer

    def result(self, value: Any, below: Below) -> Any:
        """Data and Stat; Stat or None; or sorted names."""
        if self.kind == "get":
            return value[0] or b"", stat_of(value[1])
        if self.kind == "exists":
            return None if value is None else stat_of(value)
        return sorted(value)

    def error(self, exception: Exception) -> CoordinationError:
        """Convert kazoo's error to one with the path."""
        return error_of(exception, self.path)


@dataclass(slots=True, eq=False)
class Write(Request):
    """A multi; if not `is_multi`, the caller gets the error of its one operation."""

    ops: Sequence[Op] = ()
    is_multi: bool = True
    sent_ops: list[Any] = field(default_factory=list)

    def prepare(self, below: Below) -> None:
        """Convert the operations to kazoo's form.  Raises: RequestTooLarge."""
        self.sent_ops = [_in_kazoos_words(op, below) for op in self.ops]
        data_bytes = sum(len(op.data) for op in self.ops if isinstance(op, Create | Set))
        if data_bytes + 200 * len(self.ops) > REQUEST_BYTES_MAX // 2:
            size_bytes = len(serialization.Transaction(self.sent_ops).serialize())
            if size_bytes > REQUEST_BYTES_MAX:
                raise RequestTooLarge(
                    f"{size_bytes} bytes for {self.ops[0].path[:200]}, at most {REQUEST_BYTES_MAX}"
                )

    def send(self, client: Any, below: Below) -> Answer:
        """Queue the request with kazoo."""
        transaction = client.transaction()
        transaction.operations.extend(self.sent_ops)
        answer: Answer = transaction.commit_async()
        return answer

    def result(self, value: Any, below: Below) -> list[Result]:
        """Convert the results of all operations.  Raises: CoordinationError."""
        for index, said in enumerate(value):
            if isinstance(said, Exception) and not isinstance(said, NOT_TO_BLAME):
                error = error_of(said, self.ops[index].path)
                raise MultiFailed(index, error) if self.is_multi else error
        results: list[Result] = []
        for op, said in zip(self.ops, value, strict=True):
            if isinstance(op, Create):
                results.append(below.short(said))
            else:
                results.append(stat_of(said) if isinstance(op, Set) else None)
        return results

    def error(self, exception: Exception) -> CoordinationError:
        """Convert kazoo's error to one with the first path."""
        return error_of(exception, self.ops[0].path)


def stat_of(stat: Any) -> Stat:
    """Convert kazoo's ZnodeStat."""
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
        data_length=stat.dataLength,
        num_children=stat.numChildren,
        pzxid=stat.pzxid,
    )


def error_of(exception: Exception, path: str) -> CoordinationError:
    """Convert kazoo's error; an unexpected one leaves the outcome unknown (CoordinationLost)."""
    kind = ERRORS.get(type(exception))
    if kind is NotAllowed:
        return NotAllowed(f"ZooKeeper's ACL of {path} keeps this client out")
    if kind is not None:
        return kind(path)
    lost = CoordinationLost(f"{path}: ZooKeeper says {exception!r}")
    lost.__cause__ = exception
    return lost


def _in_kazoos_words(op: Op, below: Below) -> Any:
    path = below.full(op.path)
    match op:
        case Create():
            if op.sequential and op.path == "/":
                path = f"{below.chroot}/"
            flags = EPHEMERAL * op.ephemeral + SEQUENTIAL * op.sequential
            # Nodes without data get null data, as in Kafka, which distinguishes null from empty.
            return serialization.Create(path, op.data or None, below.acl_of(op.path), flags)
        case Set():
            return serialization.SetData(path, op.data, op.version)
        case Delete():
            return serialization.Delete(path, op.version)
        case Check():
            return serialization.CheckVersion(path, op.version)
