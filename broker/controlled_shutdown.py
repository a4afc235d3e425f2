"""Before a broker stops: have the controller hand over what it leads.

Source: KafkaServer.controlledShutdown of Kafka 3.9. A broker goes anyway when that fails.
"""

import asyncio
import logging
from typing import Final

from odradek.protocol.messages.k07_controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

from .config import Config
from .metadata import MetadataCache
from .peers.controller_client import ControllerClient
from .peers.peer import PeerFailed, code_of

log = logging.getLogger(__name__)

NAMED_MAX: Final = 10
"""Partitions that one log line names."""


async def hand_over(
    controller_client: ControllerClient,
    metadata: MetadataCache,
    config: Config,
    *,
    version: int,
    broker_id: int,
    broker_epoch: int,
) -> bool:
    """Return once this broker leads nothing, or once that was tried often enough: then False.

    At once if there is nobody else to lead anything, or it is switched off.
    """
    others = metadata.brokers.keys() - {broker_id}
    if not config.controlled_shutdown_enable or not others or broker_epoch < 0:
        return False
    request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch)
    for tries_left in reversed(range(config.controlled_shutdown_max_retries)):
        reason = await _try(controller_client, request, version, config)
        if reason is None:
            log.info("everything was handed over")
            return True
        log.warning("not everything was handed over tries_left=%d reason=%s", tries_left, reason)
        if tries_left:
            await asyncio.sleep(config.controlled_shutdown_retry_backoff_ms / 1000)
    return False


async def _try(
    controller_client: ControllerClient,
    request: ControlledShutdownRequest,
    version: int,
    config: Config,
) -> str | None:
    """Why something is still led here, or None."""
    try:
        async with asyncio.timeout(config.controller_socket_timeout_ms / 1000):
            answer = await controller_client.ask_once(request, version)
    except PeerFailed as failed:
        return str(failed)
    except TimeoutError:
        return "the controller does not answer"
    assert isinstance(answer, ControlledShutdownResponse)
    if answer.error_code:
        return code_of(answer.error_code).name
    remaining = answer.remaining_partitions
    if not remaining:
        return None
    named = ", ".join(
        f"{partition.topic_name}-{partition.partition_index}" for partition in remaining[:NAMED_MAX]
    )
    more = f" and {len(remaining) - NAMED_MAX} more" if len(remaining) > NAMED_MAX else ""
    return f"nobody else can lead {named}{more}"
