"""Controlled shutdown: takes leadership from a broker that is stopping.

Source: Kafka 3.9's controller in ZooKeeper mode.
"""

import logging

from odradek.protocol.errors import ErrorCode, Refused

from ..elections import Strategy
from ..partition_state import TopicPartition
from .context import Context
from .effects import Procedure
from .partition_machine import change_partitions
from .replica_machine import change_replicas
from .request_batch import RequestBatch
from .status import PartitionStatus, ReplicaStatus

logger = logging.getLogger(__name__)

BROKER_EPOCH_UNKNOWN = -1


def shut_down(
    context: Context, broker_id: int, broker_epoch: int
) -> Procedure[list[TopicPartition]]:
    """Take leadership from a broker that is stopping; returns the partitions it still leads.

    Partitions with one replica are not counted. An unknown broker epoch (-1) is not checked.
    Raises: Refused (BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH).
    """
    broker = context.brokers.get(broker_id)
    if broker is None:
        raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {broker_id}")
    if broker_epoch != BROKER_EPOCH_UNKNOWN and broker_epoch < broker.epoch:
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} has registered again")
    logger.info("controlled shutdown begins broker=%d", broker_id)
    context.shutting_down.add(broker_id)
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    for key in context.replicas_on((broker_id,))[broker_id]:
        state = context.states.get(key)
        if state is None or len(state.replicas) < 2 or context.is_to_be_deleted(key[0]):
            continue
        (led if state.leader == broker_id else followed).append(key)
    yield from change_partitions(context, led, PartitionStatus.ONLINE, Strategy.SHUTDOWN)
    batch = RequestBatch(context)
    for key in followed:
        batch.add_stop_replica(broker_id, key, delete=False)
    yield from batch.send()
    yield from change_replicas(context, {broker_id: followed}, ReplicaStatus.OFFLINE)
    return [
        key
        for key, state in context.states.items()
        if state.leader == broker_id
        and len(state.replicas) > 1
        and not context.is_to_be_deleted(key[0])
    ]
