"""Which replica an election makes leader, and which brokers get LeaderAndIsr afterwards."""

from collections.abc import Callable, Mapping

from ..elections import (
    Leadership,
    Strategy,
    leader_after_reassignment,
    leader_at_shutdown,
    leader_if_offline,
    preferred_leader,
)
from ..partition_state import PartitionState, TopicPartition
from .context import Context


def choose(
    context: Context, state: PartitionState, strategy: Strategy, *, allow_unclean: bool
) -> Leadership | None:
    """The result of an election; None if no replica is eligible."""
    return _CHOICES[strategy](context, state, allow_unclean)


def _choose_offline(
    context: Context, state: PartitionState, allow_unclean: bool
) -> Leadership | None:
    online = context.online(state.key, state.replicas)
    return leader_if_offline(state, online, allow_unclean=allow_unclean)


def _choose_reassigned(
    context: Context, state: PartitionState, allow_unclean: bool
) -> Leadership | None:
    target = context.assignment(state.key).target
    return leader_after_reassignment(state, target, context.online(state.key, target))


def _choose_preferred(
    context: Context, state: PartitionState, allow_unclean: bool
) -> Leadership | None:
    return preferred_leader(state, context.online(state.key, state.replicas))


def _choose_at_shutdown(
    context: Context, state: PartitionState, allow_unclean: bool
) -> Leadership | None:
    online = context.online(state.key, state.replicas, or_shutting_down=True)
    return leader_at_shutdown(state, online, context.shutting_down)


_CHOICES: Mapping[Strategy, Callable[[Context, PartitionState, bool], Leadership | None]] = {
    Strategy.OFFLINE: _choose_offline,
    Strategy.UNCLEAN: _choose_offline,
    Strategy.REASSIGN: _choose_reassigned,
    Strategy.PREFERRED: _choose_preferred,
    Strategy.SHUTDOWN: _choose_at_shutdown,
}


def recipients(context: Context, key: TopicPartition, strategy: Strategy) -> tuple[int, ...]:
    """The brokers that get LeaderAndIsr after an election."""
    assignment = context.assignment(key)
    if strategy is Strategy.REASSIGN:
        return assignment.target
    if strategy is Strategy.PREFERRED:
        return assignment.replicas
    if strategy is Strategy.SHUTDOWN:
        return context.online(key, assignment.replicas, or_shutting_down=True)
    return context.online(key, assignment.replicas)
