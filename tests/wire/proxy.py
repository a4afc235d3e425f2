"""A TCP proxy between client and broker that cuts connections at random, by a seed.

The broker advertises its own address, so the proxy must be what it advertises: start the broker
with `advertised.listeners` naming the proxy's port.
"""

import random
import selectors
import socket
import threading
from types import TracebackType
from typing import Final, Self

CHUNK_BYTES: Final = 512
"""Pieces, each of which may be cut, are many, however slowly they are forwarded."""


class CuttingProxy:
    """Forwards both ways; each forwarded piece may be the last one of its connection.

    A cut drops what was read and closes both ends with a reset: sometimes the broker got a request
    and the client never hears of it, sometimes neither.
    """

    def __init__(self, *, seed: int, cut_one_in: int, cuts_max: int = 1_000_000):
        self._chance = random.Random(seed)
        self._cut_one_in = cut_one_in
        self._cuts_max = cuts_max
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cutting-proxy", daemon=True)
        self.host = "127.0.0.1"
        self.port: int = self._listener.getsockname()[1]
        self.upstream: tuple[str, int] | None = None
        self.cuts = 0

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join(timeout=10)
        for end in list(self._peers):
            end.close()
        self._listener.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for key, _ in self._selector.select(timeout=0.05):
                end = key.fileobj
                assert isinstance(end, socket.socket)
                if end is self._listener:
                    self._accept()
                elif end in self._peers:
                    self._forward(end)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        assert self.upstream is not None, "set .upstream first"
        try:
            broker = socket.create_connection(self.upstream, timeout=5)
        except OSError:
            client.close()
            return
        for end, other in ((client, broker), (broker, client)):
            end.settimeout(10)
            self._peers[end] = other
            self._selector.register(end, selectors.EVENT_READ)

    def _forward(self, end: socket.socket) -> None:
        try:
            data = end.recv(CHUNK_BYTES)
            if not data:
                self._close(end)
            elif self.cuts < self._cuts_max and self._chance.randrange(self._cut_one_in) == 0:
                self.cuts += 1
                self._close(end)
            else:
                self._peers[end].sendall(data)
        except OSError:
            self._close(end)

    def _close(self, end: socket.socket) -> None:
        other = self._peers.pop(end)
        self._peers.pop(other)
        for one in (end, other):
            self._selector.unregister(one)
            one.close()
