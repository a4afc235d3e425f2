"""What the group machines want done, as values; `LedShard` does it, in their order.

The order is the promise. An answer that may only be given once its records are kept is an effect
that `then` returns; it never stands beside the append.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

if TYPE_CHECKING:
    from odradek.protocol.group_records import GroupRecord

Reply = object
"""Who waits for an answer. The machines keep it and hand it back; the shell knows what it is."""


class Answer(NamedTuple):
    """Answer the waiting client; if it has hung up, nothing happens."""

    reply: Reply
    response: Message


class AppendGroupRecords(NamedTuple):
    """Append records to the group's partition of `__consumer_offsets`, as one batch.

    `appended` is called at once when the log has taken them, before anything else happens: here a
    machine whose state is made of its records applies them.  `then` is called once the high
    watermark has passed them (NONE), or when they were refused (the log's own code, for example
    MESSAGE_TOO_LARGE; then `appended` was not called, or leadership was lost before the high
    watermark came); it returns what is to be done next.
    """

    records: "Sequence[GroupRecord]"
    then: Callable[[ErrorCode], "Sequence[Effect]"]
    appended: Callable[[], None] | None = None


Effect = Answer | AppendGroupRecords


class Caller(NamedTuple):
    """Who asks, and in which version of the API."""

    client_id: str
    client_host: str
    """As Kafka keeps it: "/127.0.0.1"."""
    version: int


# What a client is told when its records could not be appended.
_UNAVAILABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_TOO_LARGE = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_FETCH_SIZE,
    }
)


def group_code_of(code: ErrorCode) -> ErrorCode:
    """What the client is told when the records of its group were refused with `code`."""
    if code in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code in _ELSEWHERE:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR if code in _TOO_LARGE else code


def offset_code_of(code: ErrorCode) -> ErrorCode:
    """What the client is told when the records of its offsets were refused with `code`."""
    if code == ErrorCode.REQUEST_TIMED_OUT:
        return code
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code in _TOO_LARGE else group_code_of(code)
