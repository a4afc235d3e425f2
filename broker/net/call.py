"""What handlers know of the request beside its message: its version, and who sent it."""

from typing import Protocol


class CloseConnection(Exception):
    """The handler's answer is to hang up (a failed Produce with acks=0)."""


class Client(Protocol):
    """The client, as handlers see it."""

    listener_name: str
    host: str
    """The client's address, as text."""

    def note_software(self, software: str) -> None:
        """The client has named itself."""


class Call:
    """What surrounds one request."""

    __slots__ = ("client", "client_id", "version")

    def __init__(self, version: int, client_id: str | None, client: Client) -> None:
        self.version = version
        self.client_id = client_id
        self.client = client
