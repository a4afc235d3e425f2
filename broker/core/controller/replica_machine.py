"""Moves replicas between states: tells their brokers, and removes offline replicas from the ISR.

Source: the replica state machine of Kafka 3.9's controller in ZooKeeper mode. A replica whose state
does not allow the transition keeps its state, as in Kafka.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from ..elections import lose_replica
from ..partition_state import PartitionState, TopicPartition
from .context import Context
from .effects import Breathe, Procedure, ReadStates, WriteStates
from .request_batch import RequestBatch, slices
from .status import REPLICA_BEFORE, ReplicaStatus

logger = logging.getLogger(__name__)

_Step = Callable[[Context, int, Sequence[TopicPartition], RequestBatch], None]


def change_replicas(
    context: Context, replicas: Mapping[int, Sequence[TopicPartition]], target: ReplicaStatus
) -> Procedure[None]:
    """Move replicas (by broker) to a state, and send the requests that follow from it."""
    batch = RequestBatch(context)
    for broker_id, keys in replicas.items():
        valid: list[TopicPartition] = []
        for number, some in enumerate(slices(keys)):
            if number:
                yield Breathe()
            able = [key for key in some if _may_change(context, broker_id, key, target)]
            if target is ReplicaStatus.OFFLINE:
                valid += able
            else:
                _STEPS[target](context, broker_id, able, batch)
        if valid:
            yield from _go_offline(context, broker_id, valid, batch)
    yield from batch.send()


def start_replicas(context: Context) -> Procedure[None]:
    """Set the initial state of all replicas, tell the brokers, remove offline ones from ISRs."""
    online: dict[int, list[TopicPartition]] = {}
    offline: dict[int, list[TopicPartition]] = {}
    for number, keys in enumerate(slices(list(context.partitions()))):
        if number:
            yield Breathe()
        for key in keys:
            status = context.replica_status[key] = {}
            for replica in context.assignment(key).replicas:
                is_online = context.is_online(replica, key)
                (online if is_online else offline).setdefault(replica, []).append(key)
                status[replica] = (
                    ReplicaStatus.ONLINE if is_online else ReplicaStatus.DELETION_INELIGIBLE
                )
    yield from change_replicas(context, dict(sorted(online.items())), ReplicaStatus.ONLINE)
    yield from change_replicas(context, dict(sorted(offline.items())), ReplicaStatus.OFFLINE)


def _may_change(
    context: Context, broker_id: int, key: TopicPartition, target: ReplicaStatus
) -> bool:
    replicas = context.replica_status.setdefault(key, {})
    status = replicas.get(broker_id, ReplicaStatus.NON_EXISTENT)
    if status in REPLICA_BEFORE[target]:
        return True
    logger.error(
        "replica state change refused topic=%s partition=%d broker=%d from=%s to=%s",
        *key,
        broker_id,
        status.name,
        target.name,
    )
    return False


# Transitions that only send requests.


def _become_new(
    context: Context, broker_id: int, keys: Sequence[TopicPartition], batch: RequestBatch
) -> None:
    for key in keys:
        state = context.states.get(key)
        if state is not None:
            if state.leader == broker_id:
                logger.error("the leader is not a new replica topic=%s partition=%d", *key)
                continue
            batch.add_leader_and_isr((broker_id,), state, is_new=True)
        context.replica_status[key][broker_id] = ReplicaStatus.NEW


def _go_online(
    context: Context, broker_id: int, keys: Sequence[TopicPartition], batch: RequestBatch
) -> None:
    for key in keys:
        replicas = context.replica_status[key]
        state = context.states.get(key)
        if replicas[broker_id] is not ReplicaStatus.NEW and state is not None:
            batch.add_leader_and_isr((broker_id,), state)
        replicas[broker_id] = ReplicaStatus.ONLINE


def _start_deletion(
    context: Context, broker_id: int, keys: Sequence[TopicPartition], batch: RequestBatch
) -> None:
    for key in keys:
        context.replica_status[key][broker_id] = ReplicaStatus.DELETION_STARTED
        batch.add_stop_replica(broker_id, key, delete=True)


def _note_deleted(
    context: Context, broker_id: int, keys: Sequence[TopicPartition], batch: RequestBatch
) -> None:
    for key in keys:
        context.replica_status[key][broker_id] = ReplicaStatus.DELETION_SUCCESSFUL


def _note_ineligible(
    context: Context, broker_id: int, keys: Sequence[TopicPartition], batch: RequestBatch
) -> None:
    for key in keys:
        context.replica_status[key][broker_id] = ReplicaStatus.DELETION_INELIGIBLE


def _cease(
    context: Context, broker_id: int, keys: Sequence[TopicPartition], batch: RequestBatch
) -> None:
    for key in keys:
        context.set_assignment(key, context.assignment(key).without(broker_id))
        del context.replica_status[key][broker_id]


_STEPS: Mapping[ReplicaStatus, _Step] = {
    ReplicaStatus.NEW: _become_new,
    ReplicaStatus.ONLINE: _go_online,
    ReplicaStatus.DELETION_STARTED: _start_deletion,
    ReplicaStatus.DELETION_SUCCESSFUL: _note_deleted,
    ReplicaStatus.DELETION_INELIGIBLE: _note_ineligible,
    ReplicaStatus.NON_EXISTENT: _cease,
}


# Going offline, which changes the state znode.


def _go_offline(
    context: Context, broker_id: int, keys: Sequence[TopicPartition], batch: RequestBatch
) -> Procedure[None]:
    led = []
    for number, some in enumerate(slices(keys)):
        if number:
            yield Breathe()
        for key in some:
            batch.add_stop_replica(broker_id, key, delete=False)
            if key in context.states:
                led.append(key)
            else:
                batch.add_update_metadata((key,))
                context.replica_status[key][broker_id] = ReplicaStatus.OFFLINE
    remaining: Sequence[TopicPartition] = led
    while remaining:
        remaining = yield from _remove_from_isr(context, broker_id, remaining, batch)


def _remove_from_isr(
    context: Context, broker_id: int, keys: Sequence[TopicPartition], batch: RequestBatch
) -> Procedure[Sequence[TopicPartition]]:
    """Returns the partitions to retry, as their state was changed by others meanwhile."""
    stored = yield ReadStates(keys)
    unchanged: list[PartitionState] = []
    shrunk: list[PartitionState] = []
    for number, some in enumerate(slices(keys)):
        if number:
            yield Breathe()
        for key in some:
            if key not in stored:
                _miss_state(context, broker_id, key)
                continue
            state = context.state_to_change(key, stored[key])
            if state is None:
                continue
            if broker_id not in state.isr:
                unchanged.append(state)
                continue
            left = lose_replica(state, broker_id)
            shrunk.append(
                state._replace(
                    leader=left.leader,
                    isr=left.isr,
                    leader_epoch=state.leader_epoch + 1,
                    partition_epoch=state.partition_epoch + 1,
                )
            )
    conflicts = (yield WriteStates(shrunk)) if shrunk else ()
    finished = unchanged + [state for state in shrunk if state.key not in conflicts]
    for number, states in enumerate(slices(finished)):
        if number:
            yield Breathe()
        for state in states:
            key = state.key
            context.states[key] = state
            context.replica_status[key][broker_id] = ReplicaStatus.OFFLINE
            if not context.is_to_be_deleted(key[0]):
                others = [r for r in context.assignment(key).replicas if r != broker_id]
                batch.add_leader_and_isr(others, state)
    return [state.key for state in shrunk if state.key in conflicts]


def _miss_state(context: Context, broker_id: int, key: TopicPartition) -> None:
    """Handle a missing state znode, which is expected only if the topic is being deleted."""
    if context.is_to_be_deleted(key[0]):
        context.replica_status[key][broker_id] = ReplicaStatus.OFFLINE
    else:
        logger.error("no state to remove a replica from topic=%s partition=%d", *key)
