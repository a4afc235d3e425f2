"""Finds out whether a write whose answer was lost took effect, by the traces it would have left.

A multi is all or nothing, so one certain trace decides for all of it.  If nothing is certain, the
caller gets CoordinationLost: the outcome is unknown.
"""

from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from .interface import (
    ANY_VERSION,
    Check,
    CoordinationLost,
    Create,
    Delete,
    Op,
    Result,
    Set,
    Stat,
)
from .paths import split_path


class Look(Protocol):
    """Reads nodes while operations are recovered."""

    async def get(self, path: str) -> tuple[bytes, Stat] | None:
        """The data and Stat of a node, or None."""
        ...

    async def children(self, path: str) -> list[str]:
        """The names of a node's children; none if it does not exist."""
        ...


class Verdict(Enum):
    """What a trace shows of an operation."""

    DONE = "done"
    NOT_DONE = "not done"
    LIKELY = "done, or somebody else did the same"
    GONE = "deleted, by this write or by another client"
    UNKNOWN = "unknown"


class Trace(NamedTuple):
    """What one operation left behind; `zxid` is the transaction that may have been this write."""

    verdict: Verdict
    zxid: int = 0
    stat: Stat | None = None


async def results_of(
    ops: Sequence[Op], look: Look, *, since_zxid: int, session_id: int, claimed: Collection[str]
) -> list[Result] | None:
    """The results of operations that took effect after `since_zxid`; None if they did not.

    `claimed`: sequential nodes that are known to belong to other operations.
    Raises: CoordinationLost if that cannot be determined.
    """
    last: dict[str, Op] = {op.path: op for op in ops if not _is_sequential(op)}
    last = {path: op for path, op in last.items() if not isinstance(op, Check)}
    ephemeral = {op.path for op in ops if isinstance(op, Create) and op.ephemeral}
    traces: dict[str, Trace] = {}
    for path, op in last.items():
        owner = session_id if path in ephemeral else 0
        traces[path] = await _trace(op, look, since_zxid, owner)
    zxid = _verdict(list(traces.values()), is_conditional=any(map(_is_conditional, ops)))
    if traces and zxid is None:
        return None
    names: dict[int, str] = {}
    for index, op in enumerate(ops):
        if isinstance(op, Create) and op.sequential:
            taken = {*claimed, *names.values()}
            name = await _sequential(op, look, since_zxid, session_id, zxid or 0, taken)
            if name is None and (traces or names):
                raise _unknown(op.path)
            if name is None:
                return None
            names[index] = name
    if not traces and not names:
        return None  # only checks
    if not names and [trace.verdict for trace in traces.values()] == [Verdict.LIKELY]:
        raise _unknown(ops[-1].path)  # several nodes with one zxid would be proof
    return [_result(index, op, traces, names) for index, op in enumerate(ops)]


def _is_conditional(op: Op) -> bool:
    """Whether the operation could have failed although the nodes are now as it wants them."""
    return isinstance(op, Check) or (isinstance(op, Delete) and op.version != ANY_VERSION)


def _is_sequential(op: Op) -> bool:
    return isinstance(op, Create) and op.sequential


def _unknown(path: str) -> CoordinationLost:
    return CoordinationLost(f"{path}: the connection was lost; whether it changed is unknown")


def _result(index: int, op: Op, traces: dict[str, Trace], names: dict[int, str]) -> Result:
    if isinstance(op, Create):
        return names.get(index, op.path)
    return traces[op.path].stat if isinstance(op, Set) else None


def _verdict(traces: Sequence[Trace], *, is_conditional: bool) -> int | None:
    """The transaction of this write (0: unknown which); None if it did not take effect.

    A deletion that depends on nothing counts as done once its node is gone. With a condition, such
    as a controller's fence, it may have failed, and another client may have deleted the node.
    Raises: CoordinationLost.
    """
    gone = Verdict.UNKNOWN if is_conditional else Verdict.DONE
    verdicts = {gone if trace.verdict is Verdict.GONE else trace.verdict for trace in traces}
    zxids = {trace.zxid for trace in traces if trace.zxid}
    if Verdict.DONE in verdicts and Verdict.NOT_DONE not in verdicts:
        return max(trace.zxid for trace in traces if trace.verdict in (Verdict.DONE, Verdict.GONE))
    if verdicts == {Verdict.LIKELY} and len(zxids) == 1:
        return zxids.pop()
    if verdicts - {Verdict.NOT_DONE, Verdict.LIKELY} or verdicts == {Verdict.LIKELY}:
        raise CoordinationLost("the connection was lost; whether anything changed is unknown")
    return None


async def _trace(op: Op, look: Look, since_zxid: int, owner: int) -> Trace:
    found = await look.get(op.path)
    if isinstance(op, Delete):
        return await _trace_of_delete(op, look, found, since_zxid)
    if found is None and isinstance(op, Set) and await _has_changed(op.path, look, since_zxid):
        return Trace(Verdict.UNKNOWN)  # perhaps deleted after this write
    if found is None:
        return Trace(Verdict.NOT_DONE)
    data, stat = found
    if isinstance(op, Create):
        return _trace_of_create(op, data, stat, since_zxid, owner)
    assert isinstance(op, Set)
    return _trace_of_set(op, data, stat, since_zxid, owner)


def _trace_of_create(op: Create, data: bytes, stat: Stat, since_zxid: int, owner: int) -> Trace:
    if stat.czxid <= since_zxid or stat.ephemeral_owner != owner:
        return Trace(Verdict.NOT_DONE)
    if owner or (stat.version == 0 and data == op.data):
        return Trace(Verdict.DONE, stat.czxid, stat)
    return Trace(Verdict.UNKNOWN if stat.version else Verdict.NOT_DONE)


def _trace_of_set(op: Set, data: bytes, stat: Stat, since_zxid: int, owner: int) -> Trace:
    if owner and stat.ephemeral_owner != owner:
        return Trace(Verdict.NOT_DONE)
    is_ours = data == op.data and stat.mzxid > since_zxid
    if op.version == ANY_VERSION:
        if stat.mzxid <= since_zxid:
            return Trace(Verdict.NOT_DONE)
        return Trace(Verdict.LIKELY if is_ours else Verdict.UNKNOWN, stat.mzxid, stat)
    if stat.version == op.version + 1 and is_ours:
        return Trace(Verdict.DONE, stat.mzxid, stat)
    return Trace(Verdict.NOT_DONE if stat.version <= op.version + 1 else Verdict.UNKNOWN)


async def _trace_of_delete(
    op: Delete, look: Look, found: tuple[bytes, Stat] | None, since_zxid: int
) -> Trace:
    if found is not None:
        is_new = found[1].czxid > since_zxid  # perhaps created again after this delete
        return Trace(Verdict.UNKNOWN if is_new else Verdict.NOT_DONE)
    if await _has_changed(op.path, look, since_zxid):
        return Trace(Verdict.GONE)
    return Trace(Verdict.NOT_DONE)  # the node did not exist before


async def _has_changed(path: str, look: Look, since_zxid: int) -> bool:
    """Whether this node or a sibling was created or deleted after `since_zxid`."""
    parent = await look.get(split_path(path)[0])
    return parent is not None and parent[1].pzxid > since_zxid


async def _sequential(
    op: Create, look: Look, since_zxid: int, session_id: int, zxid: int, claimed: Collection[str]
) -> str | None:
    """The node that a sequential create made, or None.  Raises: CoordinationLost."""
    parent, prefix = split_path(op.path)
    found: list[tuple[int, str]] = []
    for name in sorted(await look.children(parent), reverse=True):
        path = f"{parent.rstrip('/')}/{name}"
        if not name.startswith(prefix) or len(name) != len(prefix) + 10 or path in claimed:
            continue
        node = await look.get(path)
        if node is None:
            continue
        data, stat = node
        if stat.czxid <= since_zxid:
            break  # names increase with zxids
        if data == op.data and stat.ephemeral_owner == (session_id if op.ephemeral else 0):
            found.append((stat.czxid, path))
    if zxid:
        return next((path for czxid, path in found if czxid == zxid), None)
    if found and not op.ephemeral:
        raise _unknown(op.path)  # another client may have created an identical node
    return min(found)[1] if found else None
