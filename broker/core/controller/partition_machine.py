"""Moves partitions between states: elects first leaders and later ones.

Source: the partition state machine of Kafka 3.9's controller in ZooKeeper mode. A partition whose
state does not allow the transition keeps its state, as in Kafka.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from ..elections import Leadership, Strategy, first_leader
from ..partition_state import NO_LEADER, PartitionState, TopicPartition
from .choices import choose, recipients
from .context import Context
from .effects import (
    Breathe,
    CreateStates,
    Procedure,
    ReadStates,
    ReadUncleanElection,
    StoredState,
    WriteStates,
)
from .request_batch import RequestBatch, slices
from .status import PARTITION_BEFORE, PartitionStatus

logger = logging.getLogger(__name__)

States = dict[TopicPartition, PartitionState]


def change_partitions(
    context: Context,
    partitions: Sequence[TopicPartition],
    target: PartitionStatus,
    strategy: Strategy = Strategy.OFFLINE,
) -> Procedure[States]:
    """Move partitions to a state, and send LeaderAndIsr where a leader was elected.

    Returns the partitions that got a leader (ONLINE only). `strategy` applies to those that had a
    leader before.
    """
    valid: list[TopicPartition] = []
    for number, keys in enumerate(slices(partitions)):
        if number:
            yield Breathe()
        valid += [key for key in keys if _may_change(context, key, target)]
    if target is not PartitionStatus.ONLINE:
        context.partition_status.update(dict.fromkeys(valid, target))
        return {}
    status = context.partition_status
    new = [key for key in valid if status[key] is PartitionStatus.NEW]
    led = [key for key in valid if status[key] is not PartitionStatus.NEW]
    batch = RequestBatch(context)
    changed = yield from _initialize(context, new, batch)
    changed.update((yield from _elect(context, led, strategy, batch)))
    status.update(dict.fromkeys(changed, PartitionStatus.ONLINE))
    yield from batch.send()
    return changed


def bring_online(context: Context, topic: str | None = None) -> Procedure[States]:
    """Elect leaders for all partitions (of a topic) that are new or offline.

    Partitions of topics to be deleted are left out, unless a reassignment has to end first. In
    Kafka, deletion and reassignment then both wait forever.
    """
    waiting = (PartitionStatus.NEW, PartitionStatus.OFFLINE)
    partitions = [
        key
        for key, status in context.partition_status.items()
        if status in waiting
        and (key in context.reassigning or not context.is_to_be_deleted(key[0]))
        and (topic is None or key[0] == topic)
    ]
    return (yield from change_partitions(context, partitions, PartitionStatus.ONLINE))


def start_partitions(context: Context) -> Procedure[None]:
    """Set the initial state of all partitions, then elect missing leaders."""
    for number, keys in enumerate(slices(list(context.partitions()))):
        if number:
            yield Breathe()
        for key in keys:
            state = context.states.get(key)
            if state is None:
                status = PartitionStatus.NEW
            elif context.is_online(state.leader, key):
                status = PartitionStatus.ONLINE
            else:
                status = PartitionStatus.OFFLINE
            context.partition_status[key] = status
    yield from bring_online(context)


def _may_change(context: Context, key: TopicPartition, target: PartitionStatus) -> bool:
    status = context.partition_status.setdefault(key, PartitionStatus.NON_EXISTENT)
    if status in PARTITION_BEFORE[target]:
        return True
    logger.error(
        "partition state change refused topic=%s partition=%d from=%s to=%s",
        *key,
        status.name,
        target.name,
    )
    return False


# First leaders.


def _initialize(
    context: Context, partitions: Sequence[TopicPartition], batch: RequestBatch
) -> Procedure[States]:
    states = []
    for number, keys in enumerate(slices(partitions)):
        if number:
            yield Breathe()
        states += [state for state in (_first_state(context, key) for key in keys) if state]
    if not states:
        return {}
    taken = yield CreateStates(states)
    changed: States = {}
    for number, some in enumerate(slices(states)):
        if number:
            yield Breathe()
        for state in some:
            key = state.key
            if key in taken:
                logger.error("partition has a state already topic=%s partition=%d", *key)
                continue
            context.states[key] = changed[key] = state
            batch.add_leader_and_isr(state.isr, state, is_new=True)
    return changed


def _first_state(context: Context, key: TopicPartition) -> PartitionState | None:
    assignment = context.assignment(key)
    leadership = first_leader(context.online(key, assignment.replicas))
    if leadership.leader == NO_LEADER:
        logger.warning("no live replica topic=%s partition=%d", *key)
        return None
    stored = StoredState(leadership.leader, 0, leadership.isr, context.controller_epoch, 0)
    return context.state_from(key, stored)


# Elections.


def _elect(
    context: Context,
    partitions: Sequence[TopicPartition],
    strategy: Strategy,
    batch: RequestBatch,
) -> Procedure[States]:
    changed: States = {}
    remaining: Sequence[TopicPartition] = partitions
    while remaining:
        elected = yield from _choose(context, remaining, strategy)
        if not elected:
            break
        conflicts = yield WriteStates(list(elected.values()))
        for number, keys in enumerate(slices(list(elected))):
            if number:
                yield Breathe()
            for key in keys:
                if key not in conflicts:
                    state = elected[key]
                    context.states[key] = changed[key] = state
                    batch.add_leader_and_isr(recipients(context, key, strategy), state)
        remaining = [key for key in elected if key in conflicts]
    return changed


def _choose(
    context: Context, partitions: Sequence[TopicPartition], strategy: Strategy
) -> Procedure[States]:
    """Elect leaders from the stored states; partitions that no replica can lead are missing."""
    stored: Mapping[TopicPartition, StoredState] = yield ReadStates(partitions)
    states: States = {}
    for number, keys in enumerate(slices(partitions)):
        if number:
            yield Breathe()
        for key in keys:
            if key not in stored:
                logger.error("no state to elect a leader from topic=%s partition=%d", *key)
            elif (state := context.state_to_change(key, stored[key])) is not None:
                states[key] = state
    unclean = yield from _unclean_topics(context, states.values(), strategy)
    elected: States = {}
    leaderless: list[TopicPartition] = []
    for number, keys in enumerate(slices(list(states))):
        if number:
            yield Breathe()
        for key in keys:
            state = states[key]
            leadership = choose(context, state, strategy, allow_unclean=key[0] in unclean)
            if leadership is None:
                leaderless.append(key)
            else:
                elected[key] = with_leadership(state, leadership)
                if leadership.leader not in state.isr:
                    logger.error(
                        "leader elected that is not in sync, records may be lost topic=%s "
                        "partition=%d broker=%d isr=%s",
                        *key,
                        leadership.leader,
                        state.isr,
                    )
    if leaderless:
        logger.warning(
            "no replica can lead strategy=%s count=%d topic=%s partition=%d",
            strategy.name.lower(),
            len(leaderless),
            *leaderless[0],
        )
    return elected


def with_leadership(state: PartitionState, leadership: Leadership) -> PartitionState:
    """The state to write after an election."""
    return state._replace(
        leader=leadership.leader,
        isr=leadership.isr,
        leader_epoch=state.leader_epoch + 1,
        partition_epoch=state.partition_epoch + 1,
        is_recovering=leadership.is_unclean,
    )


def _unclean_topics(
    context: Context, states: Iterable[PartitionState], strategy: Strategy
) -> Procedure[Collection[str]]:
    """The topics with a partition that has lost its ISR and that any replica may lead."""
    if strategy not in (Strategy.OFFLINE, Strategy.UNCLEAN):
        return ()
    lost = {state.topic: None for state in states if not context.online(state.key, state.isr)}
    if strategy is Strategy.UNCLEAN or not lost:
        return lost
    allowed = yield ReadUncleanElection(list(lost))
    return {topic for topic in lost if allowed.get(topic, False)}
