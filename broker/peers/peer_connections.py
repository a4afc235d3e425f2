"""One connection to each of several brokers, opened when it is needed."""

from odradek.protocol.schema import Message

from .addresses import Peers
from .peer import Peer, PeerFailed


class PeerConnections:
    """Connections on the listener for brokers; a broker that has moved gets a new one."""

    def __init__(self, peers: Peers, own_id: int, *, timeout_ms: int) -> None:
        """`timeout_ms` is for one request, including connecting."""
        self._peers = peers
        self._client_id = str(own_id)
        self._timeout_ms = timeout_ms
        self._by_broker: dict[int, Peer] = {}
        self._is_closed = False

    async def ask(self, broker_id: int, request: Message, version: int) -> Message:
        """Send a request to a broker and return the response.  Raises: PeerFailed."""
        if self._is_closed:
            raise PeerFailed("closed")
        address = self._peers.address(broker_id)
        peer = self._by_broker.get(broker_id)
        if peer is None or (peer.host, peer.port) != (address.host, address.port):
            if peer is not None:
                peer.close()
            peer = self._by_broker[broker_id] = self._peers.open(
                address, client_id=self._client_id, timeout_ms=self._timeout_ms
            )
        return await peer.ask(request, version)

    def close(self) -> None:
        """Disconnect from all."""
        self._is_closed = True
        for peer in self._by_broker.values():
            peer.close()
