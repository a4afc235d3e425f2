"""Requests from this broker to the controller, such as AlterPartition."""

import asyncio
import logging
from typing import Any, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

from ..member.metadata import MetadataCache
from .addresses import Peers
from .own import AskSelf
from .peer import Peer, PeerFailed
from .trouble import Trouble

logger = logging.getLogger(__name__)

UNKNOWN_PAUSE_S: Final = 0.1
"""The pause between attempts while the metadata names no controller."""
RETRY_PAUSE_S: Final = 0.05
NO_CONTROLLER: Final = -1


class ControllerClient:
    """Finds the controller in the metadata, and retries when it has moved.

    If this broker is the controller, its handler is called directly. Otherwise all requests share
    one connection, on which versions are negotiated, as in Kafka: an answer may have a lower
    version than requested.
    """

    def __init__(
        self,
        peers: Peers,
        metadata: MetadataCache,
        *,
        broker_id: int,
        ask_self: AskSelf,
        timeout_ms: int,
    ) -> None:
        """`timeout_ms`: request.timeout.ms, for one attempt."""
        self._peers = peers
        self._metadata = metadata
        self._broker_id = broker_id
        self._ask_self = ask_self
        self._timeout_ms = timeout_ms
        self._peer: Peer | None = None
        self._closed = asyncio.Event()
        self._trouble = Trouble()

    async def ask(self, request: Message, version: int) -> Message:
        """Retry until a controller answers; NOT_CONTROLLER does not count as an answer.

        An attempt that failed may still have taken effect at a controller.
        Raises: PeerFailed if this client is closed.
        """
        while True:
            try:
                answer = await self.ask_once(request, version)
            except PeerFailed as failed:
                if self._closed.is_set():
                    raise
                self._note(str(failed))
            else:
                if not _says_not_controller(answer):
                    self._note("")
                    return answer
                self._note(f"broker {self._metadata.controller_id} is not the controller")
            unknown = self._metadata.controller_id == NO_CONTROLLER
            await self._pause(UNKNOWN_PAUSE_S if unknown else RETRY_PAUSE_S)

    async def ask_once(self, request: Message, version: int) -> Message:
        """Ask the controller that the metadata names now.

        Raises: PeerFailed, also if it names none.
        """
        if self._closed.is_set():
            raise PeerFailed("closed")
        controller_id = self._metadata.controller_id
        if controller_id == self._broker_id:
            self._hang_up()
            return await self._ask_self(request, version)
        return await self._peer_of(controller_id).ask(request, version)

    def close(self) -> None:
        """Stop asking; waiting callers get PeerFailed."""
        self._closed.set()
        self._hang_up()

    def _peer_of(self, controller_id: int) -> Peer:
        """The peer for the controller, a new one if its address changed.  Raises: PeerFailed."""
        if controller_id == NO_CONTROLLER:
            raise PeerFailed("no controller is known")
        address = self._peers.controller_address(controller_id)
        peer = self._peer
        if peer is None or (peer.host, peer.port) != (address.host, address.port):
            self._hang_up()
            peer = self._peer = self._peers.open(
                address,
                client_id=str(self._broker_id),
                timeout_ms=self._timeout_ms,
                negotiates=True,
            )
        return peer

    def _hang_up(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    async def _pause(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._closed.wait()
        except TimeoutError:
            return

    def _note(self, trouble: str) -> None:
        if not trouble:
            if self._trouble.ends():
                logger.info("controller reached again broker=%d", self._metadata.controller_id)
            return
        is_said = self._trouble.begins(int(asyncio.get_running_loop().time() * 1000))
        level = logging.WARNING if is_said else logging.DEBUG
        logger.log(level, "controller not reached, trying again reason=%s", trouble)


def _says_not_controller(answer: Any) -> bool:
    """Whether any of its error codes is NOT_CONTROLLER."""
    if answer.error_code == ErrorCode.NOT_CONTROLLER:
        return True
    return any(
        partition.error_code == ErrorCode.NOT_CONTROLLER
        for topic in getattr(answer, "topics", ())
        for partition in topic.partitions
    )
