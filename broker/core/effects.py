"""What the machines of a coordinator want done, as values; `LedPartition` executes them in order.

The order is a guarantee. An answer that may only be given once its records are committed is an
effect that `then` returns; it never stands beside the append.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

Reply = object
"""Identifies the client that waits for an answer. The machines keep it and pass it back; only the
shell knows what it is."""


class Answer(NamedTuple):
    """Answer the waiting client; if it has disconnected, nothing happens."""

    reply: Reply
    response: Message


class Producer(NamedTuple):
    """The producer of a transaction, in one of its epochs."""

    producer_id: int
    producer_epoch: int


class AppendRecords(NamedTuple):
    """Append records to the coordinator's partition, as one batch.

    `appended` is called as soon as the log has taken them, before anything else happens: a machine
    whose state consists of its records applies them here.  `then` is called with NONE once the high
    watermark has passed them, or with an error code if they failed: the log's own code if it
    refused them, for example MESSAGE_TOO_LARGE (then `appended` was not called), or another if
    leadership was lost before the high watermark passed them.  It returns what is to be done next.
    """

    records: Sequence[Any]
    """Records of the type that the coordinator's codec writes."""
    then: Callable[[ErrorCode], "Sequence[Effect]"]
    appended: Callable[[], None] | None = None
    producer: Producer | None = None
    """Whose transaction the records belong to; None: they belong to none."""


class OwnEffect:
    """The base of effects that only one coordinator knows, and carries out itself."""

    __slots__ = ()


Effect = Answer | AppendRecords | OwnEffect


def any_topic(name: str) -> bool:
    """The right of a client whose rights nobody limits."""
    return True


class Caller(NamedTuple):
    """The client that sent a request, and the version of the API it used."""

    client_id: str
    client_host: str
    """In Kafka's form: "/127.0.0.1"."""
    version: int
    may_describe: Callable[[str], bool] = any_topic
    """Whether the client may describe a topic; asks the current ACLs."""
