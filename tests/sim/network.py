"""The simulated network: ports, connections made of two endpoints, seeded delays and pieces.

A connection behaves as TCP does under asyncio.  Bytes arrive in order and in pieces of any size.
A window (the two kernels' buffers) bounds what is under way; behind it the writer's own buffer
grows and `pause_writing` is called.  Closing sends what is buffered and then the end; an endpoint
closed over unread bytes, or one that gets bytes after its close, answers with a reset.
"""

import asyncio
import errno
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .node import Node
from .transport import WINDOW_BYTES, Address, SimTransport

if TYPE_CHECKING:
    from .loop import SimLoop

Factory = Callable[[], asyncio.BaseProtocol]

PIECE_BYTES = (7, 100, 1_460, 16_384, WINDOW_BYTES)
DELAY_NS = (20_000, 300_000)
SLOW_DELAY_NS = (1_000_000, 40_000_000)
SLOW_ONE_IN = 50
PORT_FIRST = 49_152
ANY_HOST = "0.0.0.0"
HARMLESS_OPTIONS = {"backlog", "family", "flags", "proto", "reuse_address", "reuse_port"}


class Network:
    """All ports and connections of one simulation."""

    def __init__(self, loop: "SimLoop") -> None:
        self.loop = loop
        self.wire = Node(loop, "network")
        """The kernels: packets move, and connections end, also when a node is dead."""
        self._servers: dict[Address, SimServer] = {}
        self._held_until_ns: dict[int, int] = {}
        self._port_next = PORT_FIRST

    def listen(
        self, factory: Factory, host: str | None, port: int, options: dict[str, Any], *, start: bool
    ) -> "SimServer":
        """Open a port.  Raises: OSError (in use)."""
        _refuse_options(options)
        address = (_host(host), port or self.port())
        if any(self._listener(address)):
            raise OSError(errno.EADDRINUSE, f"address already in use: {address}")
        server = SimServer(self, factory, address)
        self._servers[address] = server
        server.node.servers.append(server)
        if start:
            server.listen()
        return server

    def port(self) -> int:
        """A port that was never used."""
        self._port_next += 1
        return self._port_next - 1

    async def connect(
        self, factory: Factory, host: str, port: int, options: dict[str, Any]
    ) -> "tuple[SimTransport, asyncio.BaseProtocol]":
        """Connect from the current node.  Raises: ConnectionRefusedError."""
        _refuse_options(options)
        node, address = self.loop.current_node(), (_host(host), port)
        await asyncio.sleep(self.delay_ns(port) / 1e9)
        server = next(iter(self._listener(address)), None)
        if server is None or not server.is_serving():
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {address}")
        near, far = self._pair(server, node, address)
        server.loop.call_soon(server.accept, far, context=far.context)
        try:
            await asyncio.sleep(self.delay_ns(port) / 1e9)
        except asyncio.CancelledError:
            near.kernel_close()
            raise
        protocol = factory()
        near.begin(protocol)
        return near, protocol

    def _pair(
        self, server: "SimServer", node: Node, address: Address
    ) -> "tuple[SimTransport, SimTransport]":
        here = ("127.0.0.1", self.port())
        near = SimTransport(self, node.context(), here, address, service_port=address[1])
        far = SimTransport(self, server.node.context(), address, here, service_port=address[1])
        near.peer, far.peer = far, near
        self.loop.note(f"connect {near}")
        return near, far

    def _listener(self, address: Address) -> "Iterable[SimServer]":
        for host in (address[0], ANY_HOST):
            if (host, address[1]) in self._servers:
                yield self._servers[host, address[1]]

    def closed(self, server: "SimServer") -> None:
        """A port is free again."""
        if self._servers.pop(server.address, None) is not None:
            server.node.servers.remove(server)

    def close_all_of(self, node: Node) -> None:
        """What the operating system does to the sockets of a killed process."""
        for server in list(node.servers):
            self.closed(server)
        for transport in list(node.transports):
            transport.kernel_close(reset=self.loop.random.random() < 0.5)

    def hold(self, port: int, for_ns: int) -> None:
        """Let no packet through to a listening port, or back from it, for a while.

        Nothing is lost, as with a link that is cut and mended before TCP gives up.
        """
        self._held_until_ns[port] = self.loop.now_ns + for_ns

    def delay_ns(self, port: int) -> int:
        """How long the next packet of a connection travels: mostly short, sometimes long.

        `port` is the one that was connected to.
        """
        slow = self.loop.random.randrange(SLOW_ONE_IN) == 0
        held_ns = max(0, self._held_until_ns.get(port, 0) - self.loop.now_ns)
        return held_ns + self.loop.random.randrange(*(SLOW_DELAY_NS if slow else DELAY_NS))

    def piece_bytes(self, size_bytes: int) -> int:
        """How many of `size_bytes` the next packet carries: often all, sometimes very few."""
        if self.loop.random.random() < 0.5:
            return size_bytes
        bound = min(size_bytes, self.loop.random.choice(PIECE_BYTES))
        return self.loop.random.randint(1, bound)


class SimServer(asyncio.AbstractServer):
    """A listening port."""

    def __init__(self, network: Network, factory: Factory, address: Address) -> None:
        self.address = address
        self.node = network.loop.current_node()
        self.loop = network.loop
        self._network = network
        self._factory = factory
        self._bound, self._serving = True, False
        self._transports: set[SimTransport] = set()
        self._waiters: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        return f"<SimServer {self.address[0]}:{self.address[1]}>"

    @property
    def sockets(self) -> "tuple[ListeningSocket, ...]":
        """As of asyncio's servers, for `sockets[0].getsockname()`."""
        return (ListeningSocket(self.address),) if self._bound else ()

    def listen(self) -> None:
        """Take connections: until then they are refused."""
        self._serving = self._bound

    def accept(self, transport: "SimTransport") -> None:
        """Take a connection that has been made; refused if the server closed meanwhile."""
        if not self._serving:
            transport.kernel_close(reset=True)
            return
        self._transports.add(transport)
        transport.server = self
        transport.begin(self._factory())

    def lost(self, transport: "SimTransport") -> None:
        """An accepted connection ended."""
        self._transports.discard(transport)
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        if self._bound or self._transports:
            return
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        """End listening; connections go on."""
        self._bound = self._serving = False
        self._network.closed(self)
        self._wake_waiters()

    async def wait_closed(self) -> None:
        """Wait for the close and for the end of all connections, as Python does since 3.12."""
        if self._bound or self._transports:
            self._waiters.append(self.loop.create_future())
            await self._waiters[-1]

    def is_serving(self) -> bool:
        """Whether connections are taken."""
        return self._serving

    async def start_serving(self) -> None:
        """Begin to listen."""
        self.listen()

    async def serve_forever(self) -> None:
        """Listen until cancelled."""
        self.listen()
        try:
            await self.loop.create_future()
        finally:
            self.close()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop."""
        return self.loop


class ListeningSocket:
    """The one thing of a listening socket that servers are asked for."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        """Host and port."""
        return self._address


def _host(host: str | None) -> str:
    return {None: ANY_HOST, "": ANY_HOST, "localhost": "127.0.0.1"}.get(host, str(host))


def _refuse_options(options: dict[str, Any]) -> None:
    unknown = sorted(name for name in set(options) - HARMLESS_OPTIONS if options[name] is not None)
    if unknown:
        raise NotImplementedError(f"the simulated network does not know {', '.join(unknown)}")
