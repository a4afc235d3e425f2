"""What the gate and handlers know of a request beside its message: its version, and who sent it."""

from typing import Final, NamedTuple, Protocol


class Principal(NamedTuple):
    """Who a client is, as Kafka writes it: `User:ANONYMOUS`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Who has not authenticated; here that is everybody."""


class CloseConnection(Exception):
    """The handler's answer is to hang up (a failed Produce with acks=0)."""


class Client(Protocol):
    """The client, as handlers see it."""

    listener_name: str
    host: str
    """The client's address, as text."""
    principal: Principal

    def note_software(self, software: str) -> None:
        """The client has named itself."""


class Call:
    """What surrounds one request."""

    __slots__ = ("client", "client_id", "version")

    def __init__(self, version: int, client_id: str | None, client: Client) -> None:
        self.version = version
        self.client_id = client_id
        self.client = client
