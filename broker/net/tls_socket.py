"""Connections with TLS on their own sockets.

asyncio's transports for TLS are not used. They take more than 256 KiB for each connection, show a
connection only after its handshake, when it has long had to count, and do not tell clients why a
handshake fails.

A step of a handshake may take milliseconds of the CPU, so handshakes take turns: one step each turn
of the loop. All connections of a listener receive into one area. What leaves is encrypted piece by
piece, no faster than the client reads.
"""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from odradek.protocol.primitives import Writer
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.span import Span

from ..tls.context import Tls
from ..tls.mapping import NoRuleFits
from ..tls.session import Session
from ..tls.subject import BadDer
from .call import ANONYMOUS, Principal
from .plain_socket import PlainConnection

if TYPE_CHECKING:
    from .connections import Connections

HANDSHAKE_RECEIVE_BYTES_MAX: Final = 1 << 14
RECEIVE_BYTES_MIN: Final = 1 << 12
ENCRYPTED_BYTES_MAX: Final = 1 << 16
SENT_BYTES_MAX: Final = 1 << 20  # per wake-up; then other connections get their turn
_NOT_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"}
)


class TlsConnection(PlainConnection):
    """A connection with TLS between its socket and its frames."""

    __slots__ = ("_ciphertext", "_deadline", "_is_reset", "_scratch", "_session", "_tls")

    def __init__(
        self,
        connections: "Connections",
        listener_name: str,
        host: str,
        sock: socket.socket,
        *,
        tls: Tls,
        scratch: memoryview,
    ) -> None:
        """`scratch`: where to receive; its content is of no use after that."""
        super().__init__(connections, listener_name, host, sock)
        self._tls = tls
        self._scratch = scratch
        self._session = Session(tls.context)
        self._ciphertext = memoryview(b"")
        """What is encrypted and not yet sent."""
        self._is_reset = False
        timeout_ms = connections.login_timeout_ms
        self._deadline: asyncio.TimerHandle | None = self._loop.call_later(
            timeout_ms / 1000, self._refuse, f"the TLS handshake took longer than {timeout_ms} ms"
        )
        """The end of the time for the handshake; None: the handshake is over."""

    # Receiving.

    def _on_readable(self) -> None:
        if self._deadline is None:
            super()._on_readable()
        elif self._receive_records(HANDSHAKE_RECEIVE_BYTES_MAX):
            self._loop.remove_reader(self._fd)  # until its turn
            self._connections.handshakes.add(self._shake_hands)

    def _receive(self) -> None:
        room, count = self.room(), 0
        while not self.closed:
            # No more than there is room for, but for a part of a record that has come before.
            wanted = min(max(len(room) - count, RECEIVE_BYTES_MIN), len(self._scratch))
            received = self._receive_records(wanted, hangs_up=not count)
            decrypted = self._decrypt(room[count:]) if received else 0
            count += decrypted
            if received < wanted or not decrypted or count == len(room):
                break
        self._take(count)

    def _receive_records(self, size_bytes_max: int, *, hangs_up: bool = True) -> int:
        """Receive for TLS; return the size.  `hangs_up`: now, if the client has hung up."""
        try:
            received = self._socket.recv_into(self._scratch[:size_bytes_max])
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            received = 0
        if received:
            self._session.receive(self._scratch[:received])
        elif hangs_up:
            self.close("")
        return received

    def _shake_hands(self) -> None:
        """Do the next step of the handshake."""
        if self.closed:
            return
        try:
            is_over = self._session.shake_hands()
            principal = self._principal() if is_over else self.principal
        except ssl.SSLError as error:
            self._refuse(_reason(error))
            return
        except (BadDer, NoRuleFits) as error:
            self._refuse(str(error))
            return
        self._flush()
        if self.closed:
            return
        if not self._connections.is_paused:
            super()._resume_reading()
        if is_over:
            assert self._deadline is not None
            self._deadline.cancel()
            self._deadline = None
            self.principal = principal
            self._read_more()

    def _principal(self) -> Principal:
        certificate = self._session.certificate
        if not certificate or not self._tls.names_clients:
            return ANONYMOUS
        return Principal("User", self._tls.user(certificate))

    def _refuse(self, reason: str) -> None:
        """Log why the handshake fails, and hang up."""
        if not self.closed:
            self._connections.log_handshake(self.listener_name, self.host, reason)
            self.close("")

    def _decrypt(self, room: memoryview) -> int:
        try:
            return self._session.read(room)
        except ssl.SSLError as error:
            self.close(_reason(error))
            return 0

    def _take(self, count: int) -> None:
        """Handle `count` decrypted bytes."""
        if count and not self.closed:
            self.on_received(count)
        if self.closed:
            return
        if self._session.has_ended:
            self._close_when_answered()
            return
        self._flush()  # TLS itself may have an answer
        if self.is_sending and not count:
            self._set_reading(False)
        if not self._session.is_drained and self._reading:
            self._loop.call_soon(self._read_more)

    def _read_more(self) -> None:
        """Read what has come with bytes that were read before, once the handshake is over."""
        if self.closed or self._deadline is not None:
            return
        if self._next is not None:  # then this is asked for again
            self._look_away()
        else:
            self._take_turn(self._read_rest)

    def _read_rest(self) -> None:
        # Never while the broker is paused: it would stay in memory that others receive into.
        if self._reading and not self._session.is_drained:
            self._take(self._decrypt(self.room()))

    def _resume_reading(self) -> None:
        super()._resume_reading()
        if not self._session.is_drained:
            self._loop.call_soon(self._read_more)

    def _read_on(self) -> None:
        super()._read_on()
        if self._session.has_ended:
            self._close_when_answered()

    def _close_when_answered(self) -> None:
        """Hang up, as the client has said goodbye, unless it is still to get answers."""
        if self._reading and not self.is_sending and not self.closed:
            self.close("")

    # Sending.

    @property
    def is_sending(self) -> bool:
        """Whether an answer is still on its way out."""
        return bool(self._out) or bool(self._ciphertext)

    def _send_now(self, out: Writer) -> None:
        self._queue(out)
        self._flush()

    def _flush(self) -> None:
        """Send until the socket accepts no more, or one wake-up's share is sent."""
        share_bytes = SENT_BYTES_MAX
        try:
            while share_bytes > 0 and (self._ciphertext or self._encrypt()):
                sent = self._socket.send(self._ciphertext)
                self._ciphertext = self._ciphertext[sent:]
                share_bytes -= sent
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._on_send_error(error)
            return
        except LogDirFailed as error:
            self.close(f"span can't be read: {error}")
            return
        if not self.closed and self._warming is None:
            self._wait_until_writable(self.is_sending)

    def _encrypt(self) -> bool:
        """Encrypt the next pieces; whether there is something to send.

        Raises: OSError, LogDirFailed.
        """
        left_bytes = ENCRYPTED_BYTES_MAX
        while self._out and left_bytes > 0 and self._warming is None:
            piece = self._out[0]
            if isinstance(piece, Span):
                if self._warms_up(piece):
                    break
                data: bytes | memoryview = self._read_span(piece, left_bytes)
            else:
                data = piece[:left_bytes]
                self._out[0] = piece[left_bytes:]
                if len(data) == len(piece):
                    self._out.popleft()
            self._session.write(data)
            left_bytes -= len(data)
        self._ciphertext = memoryview(self._session.outgoing())
        return bool(self._ciphertext)

    def _read_span(self, span: Span, size_bytes_max: int) -> bytes:
        """The next bytes of the first span.  Raises: OSError, LogDirFailed."""
        size_bytes = min(size_bytes_max, span.size_bytes - self._span_sent_bytes)
        data = span.file.pread(size_bytes, span.position + self._span_sent_bytes)
        self._note_sent(span, len(data))
        return data

    # Hanging up.

    def _prepare_reset(self) -> None:
        super()._prepare_reset()
        self._is_reset = True

    def _hang_up(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        else:
            self._session.end()
        if not self._is_reset and not self._ciphertext:
            with suppress(OSError):  # the last words: why the handshake fails, or that this ends
                self._socket.send(self._session.outgoing())
        super()._hang_up()


def _reason(error: ssl.SSLError) -> str:
    """Why TLS has failed, for the log."""
    reason = error.reason or ""
    if reason in _NOT_TLS:
        return "this is not TLS, which the listener requires (security.protocol=SSL)"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    return f"TLS: {reason.replace('_', ' ').lower() or error}"
