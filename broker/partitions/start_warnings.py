"""What a broker says at its start of partitions that somebody must look after."""

import logging

from .old_transactions import with_old_transactions
from .replicas import Replicas

logger = logging.getLogger(__name__)


def name_unknown(replicas: Replicas) -> None:
    """Name the directories of partitions that the store does not know."""
    for log in replicas.log_dirs.all_logs():
        if (log.topic, log.partition) not in replicas.partitions:
            logger.warning(
                "partition directory not served directory=%s reason=the store does not know it",
                log.directory,
            )


def name_old_transactions(replicas: Replicas, *, open_ms_max: int, wall_ms: int) -> None:
    """Name a partition whose transactions are open for longer than that, and count all."""
    old = with_old_transactions(replicas.partitions.values(), wall_ms - open_ms_max)
    if old:
        logger.warning(
            "transactions are open for more than ms=%d partitions=%d first=%s; `odradek "
            "transactions find-hanging` lists those that no coordinator will end",
            open_ms_max,
            len(old),
            min(old),
        )
