"""What the journal of a transactional id says of each event."""

from collections.abc import Collection
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode

from ..effects import Caller, Producer
from ..partition_state import TopicPartition
from .requests import AddPartitions, EndTransaction, InitProducer
from .states import TransactionState
from .transaction import NONE, Snapshot

CLIENT_ID_MAX: Final = 100


class Note(NamedTuple):
    """An entry without its time."""

    event: str
    reason: str
    who: str = ""
    """The client, if a request was the reason."""


def loaded() -> Note:
    """This broker has read the id from the log."""
    return Note("loaded", "this broker has read the log; it knows no earlier events")


def initialized(known: Snapshot, after_it: Snapshot, caller: Caller) -> Note:
    """A producer got the id."""
    reason = f"{_producer(after_it)}, timeout {after_it.timeout_ms} ms"
    is_same = (known.producer_id, known.producer_epoch) == after_it[:2]
    if known.producer_epoch != NONE and not is_same:
        reason += f"; {_producer(known)} is fenced"
    return Note("initialized", reason, _who(caller))


def fenced(known: Snapshot, caller: Caller) -> Note:
    """A client asked for the id while a transaction of the older producer was open."""
    reason = f"{_producer(known)}; its transaction in {_count(known.partitions)} is aborted"
    return Note("fenced", reason, _who(caller))


def extended(known: Snapshot, after_it: Snapshot, caller: Caller) -> Note:
    """A transaction began, or got more partitions."""
    if not known.is_ongoing:
        more = len(after_it.partitions) - 1
        reason = f"with {_name(min(after_it.partitions))}" if after_it.partitions else ""
        reason += f" and {more} more" if more > 0 else ""
        return Note("began", reason, _who(caller))
    added = after_it.partitions - known.partitions
    reason = f"{_name(min(added))}" + (f" and {len(added) - 1} more" if len(added) > 1 else "")
    return Note("added", f"{reason}: now {_count(after_it.partitions)}", _who(caller))


def ended(known: Snapshot, request: EndTransaction, caller: Caller, wall_ms: int) -> Note:
    """The producer committed or aborted its transaction; the markers follow."""
    if not known.is_ongoing:
        return Note("abort", "no partition was added", _who(caller))
    reason = f"{_count(known.partitions)}, open for {_since(known.start_ms, wall_ms)}"
    return Note("commit" if request.commits else "abort", reason, _who(caller))


def timed_out(known: Snapshot, wall_ms: int) -> Note:
    """The coordinator aborts a transaction that took too long."""
    return Note(
        "timed-out",
        f"open for {_since(known.start_ms, wall_ms)}, its timeout is {known.timeout_ms} ms;"
        f" {_count(known.partitions)} aborted, {_producer(known)} fenced",
    )


def resumed(known: Snapshot) -> Note:
    """The log says how a transaction ends; this broker sends the markers."""
    kind = "commit" if known.state is TransactionState.PREPARE_COMMIT else "abort"
    return Note("resumed", f"the {kind} in {_count(known.partitions)}, which was decided before")


def completed(known: Snapshot, wall_ms: int) -> Note:
    """All markers are written."""
    event = "committed" if known.state is TransactionState.PREPARE_COMMIT else "aborted"
    took = _since(known.update_ms, wall_ms)
    return Note(event, f"markers in {_count(known.partitions)}, {took} after the decision")


def expired() -> Note:
    """The id has not been used for too long."""
    return Note("expired", "not used for transactional.id.expiration.ms")


def not_stored(after_it: Snapshot, code: ErrorCode) -> Note:
    """A record was not appended, or this broker no longer leads."""
    return Note("not-stored", f"the record of {after_it.state.kafka_name}: {code.name}")


def refused(
    request: InitProducer | AddPartitions | EndTransaction, code: ErrorCode, caller: Caller
) -> Note:
    """A client was told that its request is not possible."""
    if isinstance(request, InitProducer):
        asked = "InitProducerId" + (f" as {_producer(request.claimed)}" if request.claimed else "")
    elif isinstance(request, AddPartitions):
        asked = f"{_count(request.partitions)} to add, as {_producer(request.producer)}"
    else:
        asked = f"{'commit' if request.commits else 'abort'} as {_producer(request.producer)}"
    return Note("refused", f"{asked}: {code.name}", _who(caller))


def marker_refused(where: TopicPartition, code: ErrorCode) -> Note:
    """The leader of a partition will never write this marker."""
    return Note("marker-refused", f"{_name(where)}: {code.name}")


def _who(caller: Caller) -> str:
    client_id = caller.client_id[:CLIENT_ID_MAX]
    return f"{client_id} at {caller.client_host.removeprefix('/')}".lstrip()


def _producer(producer: Producer | Snapshot) -> str:
    return f"producer {producer.producer_id}, epoch {producer.producer_epoch}"


def _name(where: TopicPartition) -> str:
    return f"{where[0]}-{where[1]}"


def _count(partitions: Collection[TopicPartition]) -> str:
    return "1 partition" if len(partitions) == 1 else f"{len(partitions)} partitions"


def _since(then_ms: int, wall_ms: int) -> str:
    """A span on the wall clock, which may have been set back meanwhile."""
    return f"{max(0, wall_ms - then_ms)} ms"
