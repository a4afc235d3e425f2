"""Elections not caused by a failure: those that admin clients request, and preferred leaders.

Source: Kafka 3.9's controller in ZooKeeper mode.
"""

import logging
from collections.abc import Collection, Iterable
from types import MappingProxyType

from odradek.protocol.errors import ErrorCode, Refused

from ..elections import ElectionType, Strategy, preferred_leader
from ..partition_state import PartitionState, TopicPartition
from .context import Context
from .effects import Breathe, Procedure
from .last_replicas import LogEnds, elect_greatest
from .partition_machine import States, bring_online, change_partitions
from .request_batch import slices
from .status import PartitionStatus

logger = logging.getLogger(__name__)

Elections = dict[TopicPartition, PartitionState | Refused]

_STRATEGIES = {
    ElectionType.PREFERRED: Strategy.PREFERRED,
    ElectionType.UNCLEAN: Strategy.UNCLEAN,
}
_FAILURES = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def elect(
    context: Context,
    partitions: Iterable[TopicPartition] | None,
    kind: ElectionType,
    ends: LogEnds = MappingProxyType({}),
) -> Procedure[Elections]:
    """Hold the elections that ElectLeaders requests; None: for all partitions.

    `ends`, for an unclean election: the log ends of partitions whose last in-sync replica waits.
    """
    asked = context.partitions() if partitions is None else partitions
    results: Elections = {}
    electable = []
    for number, keys in enumerate(slices(list(dict.fromkeys(asked)))):
        if number:
            yield Breathe()
        for key in keys:
            refused = _check(context, key, kind)
            if refused is None:
                electable.append(key)
            else:
                results[key] = refused
    greatest: States = {}
    if kind is ElectionType.UNCLEAN and ends:
        greatest = yield from elect_greatest(context, ends, set(electable))
    strategy = _STRATEGIES[kind]
    rest = [key for key in electable if key not in greatest]
    elected = yield from change_partitions(context, rest, PartitionStatus.ONLINE, strategy)
    elected.update(greatest)
    for key in electable:
        failure = Refused(_FAILURES[kind], "no such replica is online and in sync")
        results[key] = elected.get(key, failure)
    return results


def rebalance(context: Context, imbalance_percent_max: int) -> Procedure[None]:
    """Return leadership to a preferred replica if others lead too many of its partitions.

    `imbalance_percent_max` is the allowed share of the partitions that prefer the same broker.
    """
    preferring: dict[int, int] = {}
    elsewhere: dict[int, list[TopicPartition]] = {}
    for number, keys in enumerate(slices(list(context.partitions()))):
        if number:
            yield Breathe()
        for key in keys:
            replicas = context.assignment(key).replicas
            if context.is_to_be_deleted(key[0]) or not replicas:
                continue
            preferring[replicas[0]] = preferring.get(replicas[0], 0) + 1
            state = context.states.get(key)
            if state is not None and state.leader != replicas[0]:
                elsewhere.setdefault(replicas[0], []).append(key)
    for broker_id, led in sorted(elsewhere.items()):
        if len(led) * 100 <= imbalance_percent_max * preferring[broker_id]:
            continue
        able = [key for key in led if _can_prefer(context, key)]
        if able:
            logger.info("leaders rebalanced broker=%d partitions=%d", broker_id, len(able))
        yield from change_partitions(context, able, PartitionStatus.ONLINE, Strategy.PREFERRED)


def preferred_elections_requested(
    context: Context, partitions: Collection[TopicPartition]
) -> Procedure[None]:
    """A client has written /admin/preferred_replica_election; the shell deletes it afterwards."""
    able = [
        key
        for key in dict.fromkeys(partitions)
        if key in context.states
        and not context.is_to_be_deleted(key[0])
        and context.states[key].leader != context.states[key].replicas[0]
    ]
    yield from change_partitions(context, able, PartitionStatus.ONLINE, Strategy.PREFERRED)


def unclean_election_enabled(context: Context, topic: str | None) -> Procedure[None]:
    """A topic (None: every topic) now allows unclean elections: hold those that were waiting."""
    yield from bring_online(context, topic)


def _check(context: Context, key: TopicPartition, kind: ElectionType) -> Refused | None:
    if key[1] not in context.assignments.get(key[0], ()):
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {key[0]!r}-{key[1]}")
    if context.is_to_be_deleted(key[0]):
        return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is being deleted")
    state = context.states.get(key)
    if state is None:
        return Refused(_FAILURES[kind], "no replica has ever led it")
    if kind is ElectionType.PREFERRED:
        if state.leader == state.replicas[0]:
            return Refused(ErrorCode.ELECTION_NOT_NEEDED, "the preferred replica leads already")
    elif state.leader in context.live:
        return Refused(ErrorCode.ELECTION_NOT_NEEDED, "the leader is alive")
    return None


def _can_prefer(context: Context, key: TopicPartition) -> bool:
    state = context.states[key]
    return preferred_leader(state, context.online(key, state.replicas)) is not None
