"""What access checks and handlers know of a request beside its message: version and sender."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from ..core.refused_batches import RefusedBatches
    from ..quotas import Usage


class Principal(NamedTuple):
    """The identity of a client, as Kafka writes it: `User:ANONYMOUS`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of a client that has neither shown a certificate nor logged in."""


class CloseConnection(Exception):
    """Raised by a handler to close the connection (a failed Produce with acks=0)."""

    last: bytes = b""
    """What is sent before."""


class Client(Protocol):
    """The client, as handlers see it."""

    listener_name: str
    entrance: str
    """By which of the brokers' endpoints it reaches them: the listener's, or see `entrances.py`."""
    host: str
    """The client's address, as text."""
    principal: Principal
    refused_batches: "RefusedBatches | None"
    """The batches that it must send again first; None: none was refused yet."""

    def note_software(self, software: str) -> None:
        """Note the software name that the client has given."""

    def keep_memory(self, size_bytes: int) -> None:
        """Count the memory of what a request has copied for later, even if the client hangs up."""

    def let_go_memory(self, size_bytes: int) -> None:
        """The end of what `keep_memory` has begun."""


class Call:
    """The context of one request."""

    __slots__ = ("client", "client_id", "on_sent", "usage", "version")

    def __init__(self, version: int, client_id: str | None, client: Client) -> None:
        self.version = version
        self.client_id = client_id
        self.client = client
        self.usage: Usage | None = None
        """What it uses of quotas; None: it is not measured."""
        self.on_sent: Callable[[int], None] | None = None
        """Is called with the size of the answer, in bytes, when it is sent."""
