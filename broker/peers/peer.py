"""One connection to another broker, over which requests are asked one after the other."""

from odradek.protocol.schema import Message


class PeerFailed(Exception):
    """The broker can't be reached, hung up, took too long, or answered what nobody understands."""


class Peer:
    """A connection that is opened when it is needed, and again after a failure.

    No ApiVersions is sent: the versions are known (`versions`). One request is under way at a time;
    others wait their turn.
    """

    def __init__(self, host: str, port: int, *, client_id: str, timeout_ms: int) -> None:
        """`timeout_ms` is for one request, connecting included."""
        raise NotImplementedError

    async def ask(self, request: Message, version: int) -> Message:
        """The response; its RECORDS are views that the next `ask` ends.  Raises: PeerFailed."""
        raise NotImplementedError

    def close(self) -> None:
        """Hang up; who waits gets PeerFailed. May be repeated; `ask` connects anew."""
        raise NotImplementedError
