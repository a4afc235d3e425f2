"""Elections for partitions whose last in-sync replica may have lost records and declines to lead.

Odradek's own (`odradek.unclean.last.replica=wait`). The replica has answered KAFKA_STORAGE_ERROR,
so it counts as offline and there is no leader, as with Kafka's controller. Odradek asks the brokers
for their log end offsets. Once all replicas have answered, the one whose log ends furthest leads,
as no replica has more records. If the loss is accepted, or the topic allows unclean elections, the
answers so far are enough.
"""

import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..elections import Leadership, Strategy
from ..partition_state import NO_LEADER, PartitionState, TopicPartition
from .choices import recipients
from .context import Context
from .effects import Procedure, ReadStates, ReadUncleanElection, WriteStates
from .partition_machine import States, with_leadership
from .request_batch import RequestBatch
from .status import PartitionStatus, ReplicaStatus

logger = logging.getLogger(__name__)


class LogEnd(NamedTuple):
    """The end of a replica's log; the fields are compared in this order."""

    last_epoch: int
    log_end_offset: int
    broker_epoch: int
    """The broker epoch at the time of the answer: after a restart the log may be shorter."""
    is_suspect: bool = False


LogEnds = Mapping[TopicPartition, Mapping[int, LogEnd]]
"""By partition and broker; brokers that did not answer are missing."""


def waiting(context: Context) -> dict[TopicPartition, tuple[int, ...]]:
    """Leaderless partitions with an offline replica on a live broker; by key, the live replicas.

    The offline replica may have declined to lead, or its disk may have failed; only its broker
    knows. It need not be in the ISR: other replicas may be the last in-sync ones, and be gone.
    """
    found = {}
    live = context.live
    offline = (keys for broker_id, keys in context.offline_replicas.items() if broker_id in live)
    for key in sorted(set().union(*offline)):
        state = context.states.get(key)
        is_leaderless = state is not None and state.leader == NO_LEADER
        if is_leaderless and not context.is_to_be_deleted(key[0]):
            replicas = context.assignment(key).replicas
            found[key] = tuple(r for r in replicas if r in live)
    return found


def comparable(context: Context) -> dict[TopicPartition, tuple[int, ...]]:
    """Those of the `waiting` partitions whose replicas are all on live brokers."""
    return {
        key: live
        for key, live in waiting(context).items()
        if len(live) == len(context.assignment(key).replicas)
    }


def elect_greatest(
    context: Context, ends: LogEnds, accepted: Collection[TopicPartition] = ()
) -> Procedure[States]:
    """Elect the replica whose log ends furthest; returns the partitions that got a leader.

    Only partitions with a suspect replica are considered. All replicas must have reported their log
    end, unless the loss is `accepted` or the topic allows unclean elections.
    """
    still = waiting(context)
    told = {
        key: {
            r: end
            for r, end in ends[key].items()
            if r in live and context.brokers[r].epoch == end.broker_epoch
        }
        for key, live in still.items()
        if key in ends and any(end.is_suspect for end in ends[key].values())
    }
    partial = [
        key for key in told if not _is_complete(context, key, told[key]) and key not in accepted
    ]
    allowed: Mapping[str, bool] = {}
    if partial:
        allowed = yield ReadUncleanElection(sorted({topic for topic, _ in partial}))
    wanted = [key for key in told if told[key] and (key not in partial or allowed.get(key[0]))]
    if not wanted:
        return {}
    stored = yield ReadStates(wanted)
    elected: States = {}
    for key in wanted:
        state = context.state_to_change(key, stored[key]) if key in stored else None
        if state is not None and state.leader == NO_LEADER:
            leader = _greatest(context, state, told[key])
            elected[key] = with_leadership(state, Leadership(leader, (leader,), is_unclean=True))
    conflicts = (yield WriteStates(list(elected.values()))) if elected else ()
    batch = RequestBatch(context)
    for key in [key for key in elected if key not in conflicts]:
        _take(context, elected[key], told[key], batch)
    yield from batch.send()
    return {key: state for key, state in elected.items() if key not in conflicts}


def _is_complete(context: Context, key: TopicPartition, told: Mapping[int, LogEnd]) -> bool:
    return told.keys() >= set(context.assignment(key).replicas)


def _greatest(context: Context, state: PartitionState, told: Mapping[int, LogEnd]) -> int:
    """The replica whose log ends furthest.

    If several do: prefer one in sync, then one that is not suspect, then the assignment's order.
    """
    replicas = context.assignment(state.key).replicas
    return max(
        told,
        key=lambda r: (told[r][:2], r in state.isr, not told[r].is_suspect, -replicas.index(r)),
    )


def _take(
    context: Context, state: PartitionState, told: Mapping[int, LogEnd], batch: RequestBatch
) -> None:
    key, leader = state.key, state.leader
    context.states[key] = state
    context.partition_status[key] = PartitionStatus.ONLINE
    for broker_id in told:  # they have answered, so they are online
        context.offline_replicas.get(broker_id, set()).discard(key)
        context.replica_status[key][broker_id] = ReplicaStatus.ONLINE
    logger.error(
        "leader elected though committed records may be lost topic=%s partition=%d broker=%d "
        "last_epoch=%d log_end_offset=%d all=%s",
        *key,
        leader,
        *told[leader][:2],
        {broker_id: (end.last_epoch, end.log_end_offset) for broker_id, end in told.items()},
    )
    accepted = state._replace(is_loss_accepted=True)
    batch.add_leader_and_isr(recipients(context, key, Strategy.UNCLEAN), accepted)
