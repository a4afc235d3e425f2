"""What a session asks ZooKeeper, and what ZooKeeper's answers mean.

Every write is a multi, also of one operation: kazoo answers a multi directly, a create through a
second result, which would come late.  Imported only where kazoo is used.
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
"""ZooKeeper's jute.maxbuffer, less what is put around a request."""
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
    """The paths of a tree that hangs below a chroot, which is empty or as "/a/b"."""

    def __init__(self, chroot: str, acl_of: AclOf) -> None:
        self.chroot = chroot
        self.acl_of = acl_of

    def full(self, path: str) -> str:
        """What the server calls it."""
        return path if not self.chroot else self.chroot + (path if path != "/" else "")

    def short(self, full: str) -> str:
        """What we call it."""
        return full[len(self.chroot) :] or "/"


@dataclass(slots=True, eq=False)
class Request:
    """One operation on its way.  `answer` is what its caller waits for."""

    answer: asyncio.Future[Any]
    since_zxid: int = 0
    """Once it was cut off: if it took effect, its transaction is a later one than this."""
    cut_count: int = 0

    def send(self, client: Any, below: Below) -> Answer:
        """Queue it with kazoo."""
        raise NotImplementedError

    def result(self, value: Any, below: Below) -> Any:
        """What the caller gets.  Raises: CoordinationError."""
        raise NotImplementedError

    def error(self, exception: Exception) -> CoordinationError:
        """What the caller gets instead."""
        raise NotImplementedError

    def fail(self, error: CoordinationError) -> None:
        """Give the caller an error, unless it has gone."""
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(slots=True, eq=False)
class Read(Request):
    """get, exists or children, as `kind` says."""

    kind: str = "get"
    path: str = "/"
    watch: Watch | None = None
    on_event: Callable[[Any], None] | None = None

    def send(self, client: Any, below: Below) -> Answer:
        """Queue it with kazoo."""
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
        """Data and Stat, Stat or None, names."""
        if self.kind == "get":
            return value[0] or b"", stat_of(value[1])
        if self.kind == "exists":
            return None if value is None else stat_of(value)
        return sorted(value)

    def error(self, exception: Exception) -> CoordinationError:
        """An error with the path."""
        return error_of(exception, self.path)


@dataclass(slots=True, eq=False)
class Write(Request):
    """A multi; `is_multi` if its caller wants to hear of it as one."""

    ops: Sequence[Op] = ()
    is_multi: bool = True
    sent_ops: list[Any] = field(default_factory=list)

    def prepare(self, below: Below) -> None:
        """Put it into kazoo's words.  Raises: RequestTooLarge."""
        self.sent_ops = [_in_kazoos_words(op, below) for op in self.ops]
        data_bytes = sum(len(op.data) for op in self.ops if isinstance(op, Create | Set))
        if data_bytes + 200 * len(self.ops) > REQUEST_BYTES_MAX // 2:
            size_bytes = len(serialization.Transaction(self.sent_ops).serialize())
            if size_bytes > REQUEST_BYTES_MAX:
                raise RequestTooLarge(
                    f"{size_bytes} bytes for {self.ops[0].path[:200]}, at most {REQUEST_BYTES_MAX}"
                )

    def send(self, client: Any, below: Below) -> Answer:
        """Queue it with kazoo."""
        transaction = client.transaction()
        transaction.operations.extend(self.sent_ops)
        answer: Answer = transaction.commit_async()
        return answer

    def result(self, value: Any, below: Below) -> list[Result]:
        """The results of all operations.  Raises: CoordinationError."""
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
        """An error with the first path."""
        return error_of(exception, self.ops[0].path)


def stat_of(stat: Any) -> Stat:
    """kazoo's ZnodeStat in our words."""
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
    """ZooKeeper's error in our words; one that is not foreseen leaves the outcome unknown."""
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
            # Nodes without data have null data, as Kafka's: it tells the two apart when it reads.
            return serialization.Create(path, op.data or None, below.acl_of(op.path), flags)
        case Set():
            return serialization.SetData(path, op.data, op.version)
        case Delete():
            return serialization.Delete(path, op.version)
        case Check():
            return serialization.CheckVersion(path, op.version)
