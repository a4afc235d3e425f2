"""One end of a simulated connection: an asyncio transport and the kernel's socket below it.

The lower half (`kernel_*`, `_arrive_*`) runs for dead processes too; the upper half runs on the
node that owns the endpoint, in its context, and calls the protocol.
"""

import asyncio
import zlib
from collections import deque
from collections.abc import Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .node import CURRENT_NODE, Node

if TYPE_CHECKING:
    from .network import Network, SimServer

Address = tuple[str, int]

WINDOW_BYTES = 256 * 1024
RECEIVE_BYTES_MAX = 256 * 1024
HIGH_WATER_BYTES = 64 * 1024
END: Final = b""
"""In the queue of arrived pieces: the peer will send no more."""

Data: TypeAlias = "bytes | bytearray | memoryview[Any]"


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    peer: "SimTransport"

    def __init__(
        self,
        network: "Network",
        context: Context,
        sockname: Address,
        peername: Address,
        *,
        service_port: int,
    ) -> None:
        """`service_port`: the one that was connected to."""
        super().__init__({"sockname": sockname, "peername": peername})
        self.context = context
        self.node: Node = context[CURRENT_NODE]
        self.server: SimServer | None = None
        self._network = network
        self._service_port = service_port
        self._loop = network.loop
        self._protocol: asyncio.BaseProtocol | None = None
        self._unsent = bytearray()
        self._under_way_bytes = 0
        self._arrived: deque[bytes] = deque()
        self._last_arrival_ns = 0
        self._reading = self._closing = self._lost = False
        self._end_wanted = self._end_sent = self._reset = False
        self._writing_paused = False
        self._high_bytes, self._low_bytes = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._open = True
        self.node.transports.append(self)

    def __repr__(self) -> str:
        host, port = self.get_extra_info("sockname")
        peer_host, peer_port = self.get_extra_info("peername")
        return f"{self.node.name} {host}:{port} -> {peer_host}:{peer_port}"

    # -- the kernel's half

    def _kernel_send(self) -> None:
        while self._unsent:
            window_bytes = WINDOW_BYTES - self._under_way_bytes
            if window_bytes < min(len(self._unsent), WINDOW_BYTES // 4):
                break  # as TCP: no tiny packets into a window that has just opened a little
            room_bytes = min(len(self._unsent), window_bytes)
            size_bytes = self._network.piece_bytes(room_bytes)
            piece = bytes(self._unsent[:size_bytes])
            del self._unsent[:size_bytes]
            self._under_way_bytes += size_bytes
            self._packet(self.peer._arrive, piece)
        if self._end_wanted and not self._unsent and not self._end_sent:
            self._end_sent = True
            self._packet(self.peer._arrive, END)

    def _packet(self, arrive: Any, *piece: bytes) -> None:
        now_ns = self._loop.now_ns
        self._last_arrival_ns = max(
            now_ns + self._network.delay_ns(self._service_port), self._last_arrival_ns + 1
        )
        self._loop.call_in_ns(self._last_arrival_ns - now_ns, self._network.wire, arrive, *piece)

    def _arrive(self, piece: bytes) -> None:
        if self._open:
            self._arrived.append(piece)
            self._loop.trace.note(self._loop.now_ns, self.node.name, _described(self, piece))
            self._soon(self._read_ready)
        elif piece is not END:
            self._packet(self.peer._arrive_reset)

    def _arrive_reset(self) -> None:
        if self._open:
            self._loop.trace.note(self._loop.now_ns, self.node.name, f"reset {self}")
            self._reset = True
            self._arrived.clear()
            self._soon(self._read_ready)
            self._soon(self._write_ready)

    def kernel_close(self, *, reset: bool = False) -> None:
        """Close the socket.  A reset overtakes nothing but destroys what the peer has not read."""
        if not self._open:
            return
        self._open = False
        self._closing = True
        self.node.transports.remove(self)
        unread = any(piece is not END for piece in self._arrived)
        self._arrived.clear()
        self._unsent.clear()
        if reset or unread:
            self._packet(self.peer._arrive_reset)
        elif not self._reset:
            self._end_wanted = True
            self._kernel_send()

    def _soon(self, callback: Any, *args: object) -> None:
        self._loop.call_soon(callback, *args, context=self.context)

    # -- reading

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Give the connection to its protocol."""
        self._protocol = protocol
        protocol.connection_made(self)
        if not self._closing:
            self.resume_reading()

    def pause_reading(self) -> None:
        """Leave what arrives in the kernel's buffer."""
        self._reading = False

    def resume_reading(self) -> None:
        """Read again."""
        if not self._closing and not self._reading:
            self._reading = True
            self._soon(self._read_ready)

    def is_reading(self) -> bool:
        """Whether bytes reach the protocol."""
        return self._reading and not self._closing

    def _read_ready(self) -> None:
        if not self.is_reading():
            return
        if self._reset:
            self._fail(ConnectionResetError("connection reset by peer"))
        elif self._arrived and self._arrived[0] is END:
            self._arrived.popleft()
            self._deliver_end()
        elif self._arrived:
            self._deliver()
            if self._arrived:
                self._soon(self._read_ready)

    def _deliver(self) -> None:
        try:
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                size_bytes = self._fill_buffer(self._protocol)
            else:
                assert isinstance(self._protocol, asyncio.Protocol)
                data = self._take(RECEIVE_BYTES_MAX)
                size_bytes = len(data)
                self._protocol.data_received(data)
        except Exception as error:  # noqa: BLE001 - as asyncio: a protocol's bug ends its connection
            self._protocol_failed(error)
            return
        self.peer._taken(size_bytes)

    def _fill_buffer(self, protocol: asyncio.BufferedProtocol) -> int:
        with memoryview(protocol.get_buffer(-1)).cast("B") as view:
            if not len(view):
                raise RuntimeError("get_buffer() returned an empty buffer")
            data = self._take(len(view))
            view[: len(data)] = data
        protocol.buffer_updated(len(data))
        return len(data)

    def _take(self, size_bytes_max: int) -> bytes:
        """One read of the socket: one or several pieces, as far as they fit."""
        several = self._loop.random.random() < 0.5
        taken = bytearray()
        while self._arrived and self._arrived[0] is not END and len(taken) < size_bytes_max:
            piece = self._arrived.popleft()
            room_bytes = size_bytes_max - len(taken)
            taken += piece[:room_bytes]
            if len(piece) > room_bytes:
                self._arrived.appendleft(piece[room_bytes:])
            if not several:
                break
        return bytes(taken)

    def _deliver_end(self) -> None:
        assert isinstance(self._protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        try:
            keep_open = self._protocol.eof_received()
        except Exception as error:  # noqa: BLE001 - as asyncio: a protocol's bug ends its connection
            self._protocol_failed(error)
            return
        if not keep_open:
            self.close()

    def _protocol_failed(self, error: Exception) -> None:
        self._loop.call_exception_handler(
            {"message": f"the protocol of {self} failed", "exception": error}
        )
        self._fail(error)

    # -- writing

    def write(self, data: Data) -> None:
        """Send, or buffer what the window does not take.  The caller may reuse `data` at once."""
        if self._end_wanted and not self._closing:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not len(data):
            return
        if self._reset:
            self._fail(BrokenPipeError("the peer has reset the connection"))
            return
        self._unsent += data
        self._kernel_send()
        if len(self._unsent) > self._high_bytes and not self._writing_paused:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Data]) -> None:
        """Send several pieces as one."""
        self.write(b"".join(list_of_data))

    def _taken(self, size_bytes: int) -> None:
        self._under_way_bytes -= size_bytes
        if self._open:
            self._soon(self._write_ready)

    def _write_ready(self) -> None:
        if not self._open or self._lost:
            return
        if self._reset:
            if self._unsent:
                self._fail(BrokenPipeError("the peer has reset the connection"))
            return
        self._kernel_send()
        if self._writing_paused and len(self._unsent) <= self._low_bytes:
            self._writing_paused = False
            assert self._protocol is not None
            self._protocol.resume_writing()
        if self._closing and not self._unsent:
            self._lose(None)

    def can_write_eof(self) -> bool:
        """Always."""
        return True

    def write_eof(self) -> None:
        """End sending, go on reading."""
        if not self._closing:
            self._end_wanted = True
            self._kernel_send()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When `pause_writing` and `resume_writing` are called."""
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        self._high_bytes, self._low_bytes = high, high // 4 if low is None else low
        if not self._high_bytes >= self._low_bytes >= 0:
            raise ValueError(f"high ({high}) must be >= low ({low}) must be >= 0")

    def get_write_buffer_size(self) -> int:
        """Bytes behind the window."""
        return len(self._unsent)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Low and high."""
        return self._low_bytes, self._high_bytes

    # -- the end

    def close(self) -> None:
        """Send what is buffered, then end."""
        if not self._closing:
            self._closing = True
            if not self._unsent:
                self._soon(self._lose, None)

    def abort(self) -> None:
        """End now."""
        self._fail(None)

    def is_closing(self) -> bool:
        """Whether the connection is ending or has ended."""
        return self._closing

    def _fail(self, error: Exception | None) -> None:
        self._unsent.clear()
        self._closing = True
        self._soon(self._lose, error)

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._loop.note(f"close {self}{'' if error is None else f' {type(error).__name__}'}")
        try:
            assert self._protocol is not None
            self._protocol.connection_lost(error)
        finally:
            self.kernel_close()
            if self.server is not None:
                self.server.lost(self)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Change the protocol."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol."""
        assert self._protocol is not None
        return self._protocol


def _described(transport: SimTransport, piece: bytes) -> str:
    what = "end" if piece is END else f"{len(piece)} bytes {zlib.crc32(piece):08x}"
    return f"receive {transport}: {what}"
