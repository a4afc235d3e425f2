"""What the machines of a coordinator want done, as values; `LedPartition` does it, in their order.

The order is the promise. An answer that may only be given once its records are kept is an effect
that `then` returns; it never stands beside the append.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

Reply = object
"""Who waits for an answer. The machines keep it and hand it back; the shell knows what it is."""


class Answer(NamedTuple):
    """Answer the waiting client; if it has hung up, nothing happens."""

    reply: Reply
    response: Message


class AppendRecords(NamedTuple):
    """Append records to the coordinator's partition, as one batch.

    `appended` is called at once when the log has taken them, before anything else happens: here a
    machine whose state is made of its records applies them.  `then` is called once the high
    watermark has passed them (NONE), or when they were refused (the log's own code, for example
    MESSAGE_TOO_LARGE; then `appended` was not called, or leadership was lost before the high
    watermark came); it returns what is to be done next.
    """

    records: Sequence[Any]
    """Of the kind that the coordinator's codec writes."""
    then: Callable[[ErrorCode], "Sequence[Effect]"]
    appended: Callable[[], None] | None = None


Effect = Answer | AppendRecords


class Caller(NamedTuple):
    """Who asks, and in which version of the API."""

    client_id: str
    client_host: str
    """As Kafka keeps it: "/127.0.0.1"."""
    version: int
