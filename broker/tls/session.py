"""TLS of one connection, without its socket: bytes from the peer go in, bytes for it come out."""

import ssl
from contextlib import suppress
from typing import Any, Final

_SENT_BYTES_MAX: Final = 1 << 14  # of one record of TLS


class Session:
    """The broker's side of TLS on one connection."""

    __slots__ = ("_incoming", "_object", "_outgoing", "has_ended", "is_drained")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        # Any: typeshed does not know that `read` can have a buffer of other kinds than bytearray.
        self._object: Any = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_drained = True
        """Whether `read` has returned all that can be decrypted yet."""
        self.has_ended = False
        """Whether the peer has said that it sends nothing more."""

    def receive(self, data: memoryview) -> None:
        """Take bytes from the peer."""
        self._incoming.write(data)
        self.is_drained = False

    def shake_hands(self) -> bool:
        """Do the next step of the handshake; whether it is over.  Raises: ssl.SSLError."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    @property
    def certificate(self) -> bytes | None:
        """The peer's certificate in DER, if it has shown one."""
        certificate: bytes | None = self._object.getpeercert(binary_form=True)
        return certificate

    def read(self, room: memoryview) -> int:
        """Decrypt into `room`; return the number of bytes.  Raises: ssl.SSLError."""
        count = 0
        try:
            while count < len(room):
                size_bytes = self._object.read(len(room) - count, room[count:])
                if size_bytes == 0:
                    self.has_ended = self.is_drained = True
                    break
                count += size_bytes
        except ssl.SSLWantReadError:
            self.is_drained = True
        return count

    def write(self, data: bytes | memoryview) -> None:
        """Encrypt for the peer."""
        view = memoryview(data)
        while view:
            view = view[self._object.write(view[:_SENT_BYTES_MAX]) :]

    def end(self) -> None:
        """Tell the peer that nothing more will be sent."""
        with suppress(ssl.SSLError):  # the peer has not answered yet, or the session is broken
            self._object.unwrap()

    def outgoing(self) -> bytes:
        """What is to be sent to the peer, once."""
        return self._outgoing.read()
