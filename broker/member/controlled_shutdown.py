"""Before a broker stops, the controller moves leadership away from it.

Source: KafkaServer.controlledShutdown of Kafka 3.9. The broker stops even if that fails.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from odradek.protocol.errors import error_code
from odradek.protocol.messages.k07_controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

from ..config import Config
from ..peers.controller_client import ControllerClient
from ..peers.peer import PeerFailed
from .metadata import MetadataCache

logger = logging.getLogger(__name__)

NAMED_MAX: Final = 10
"""The number of partitions that one log line names."""


async def hand_over(
    controller_client: ControllerClient,
    metadata: MetadataCache,
    config: Config,
    *,
    version: int,
    broker_id: int,
    broker_epoch: Callable[[], int],
) -> bool:
    """Return once this broker leads nothing, or with False when the tries are used up.

    Return at once if no other broker could lead, or if the feature is switched off. Unlike Kafka,
    the pause between tries ends early when the cluster changes; such tries are extra.
    `broker_epoch`: -1 without a session; in the next session the broker leads under another epoch.
    """
    if not config.controlled_shutdown_enable or broker_epoch() < 0:
        return False
    tries_left = config.controlled_shutdown_max_retries
    backoff_s = config.controlled_shutdown_retry_backoff_ms / 1000
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + tries_left * backoff_s
    while tries_left > 0 and metadata.brokers.keys() - {broker_id}:
        before = _cluster(metadata)
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch())
        reason = await _try(controller_client, request, version, config)
        if reason is None:
            logger.info("controlled shutdown completed")
            return True
        tries_left -= 1
        logger.warning(
            "controlled shutdown not completed tries_left=%d reason=%s", tries_left, reason
        )
        if tries_left and await _has_changed(metadata, before, backoff_s):
            tries_left += loop.time() < deadline_s
    return False


def _cluster(metadata: MetadataCache) -> object:
    """The state that must change before another try can do better."""
    return metadata.controller_id, set(metadata.brokers)


async def _has_changed(metadata: MetadataCache, before: object, within_s: float) -> bool:
    """Whether the controller or the set of brokers changes within the time."""
    try:
        async with asyncio.timeout(within_s):
            await metadata.wait_until(lambda: _cluster(metadata) != before)
    except TimeoutError:
        return False
    return True


async def _try(
    controller_client: ControllerClient,
    request: ControlledShutdownRequest,
    version: int,
    config: Config,
) -> str | None:
    """Why this broker still leads something, or None."""
    if request.broker_epoch < 0:  # to Kafka's controller -1 would match any epoch
        return "this broker is not registered"
    try:
        async with asyncio.timeout(config.controller_socket_timeout_ms / 1000):
            answer = await controller_client.ask_once(request, version)
    except PeerFailed as failed:
        return str(failed)
    except TimeoutError:
        return "the controller does not answer"
    assert isinstance(answer, ControlledShutdownResponse)
    if answer.error_code:
        return error_code(answer.error_code).name
    remaining = answer.remaining_partitions
    if not remaining:
        return None
    named = ", ".join(
        f"{partition.topic_name}-{partition.partition_index}" for partition in remaining[:NAMED_MAX]
    )
    more = f" and {len(remaining) - NAMED_MAX} more" if len(remaining) > NAMED_MAX else ""
    return f"nobody else can lead {named}{more}"
