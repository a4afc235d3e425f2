"""Warns once in a cluster with Apache Kafka's brokers, which is not supported yet.

Their registrations look like ours, but they advertise Envelope, which none of our brokers does.
"""

import asyncio
import logging
from typing import Final

from ..peers.addresses import Peers
from ..peers.negotiation import negotiate
from ..peers.peer import PeerFailed
from .metadata import MetadataCache

logger = logging.getLogger(__name__)

ENVELOPE_KEY: Final = 58
ASK_TIMEOUT_MS: Final = 10_000
RETRY_S: Final = 10.0


async def warn_beside_kafka(metadata: MetadataCache, peers: Peers, broker_id: int) -> None:
    """Ask every other broker until one is Kafka's; then return."""
    asked = {broker_id}

    def unasked() -> set[int]:
        asked.intersection_update({broker_id, *metadata.brokers})
        return metadata.brokers.keys() - asked

    while True:
        await metadata.wait_until(lambda: bool(unasked()))
        for other in unasked():
            try:
                found = await is_kafka(peers, other, broker_id)
            except PeerFailed:
                await asyncio.sleep(RETRY_S)
                continue
            if found:
                logger.warning(
                    "broker=%d is Apache Kafka's: a cluster with both is not supported yet", other
                )
                return
            asked.add(other)


async def is_kafka(peers: Peers, other: int, broker_id: int) -> bool:
    """Whether another broker is Apache Kafka's.  Raises: PeerFailed."""
    address = peers.address(other)
    peer = peers.open(address, client_id=str(broker_id), timeout_ms=ASK_TIMEOUT_MS)
    try:
        return ENVELOPE_KEY in (await negotiate(peer.ask)).ranges
    finally:
        peer.close()
