"""ISR changes, which leaders request or (older brokers) write themselves.

Source: Kafka 3.9's controller in ZooKeeper mode, with its checks in the same order.
"""

import logging
from collections.abc import Collection, Iterable
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode, Refused

from ..partition_state import PartitionState, TopicPartition
from .context import Context
from .effects import Procedure, ReadStates, WriteStates
from .reassignment import complete_reassignments
from .request_batch import send_metadata

logger = logging.getLogger(__name__)


class IsrChange(NamedTuple):
    """The change of one partition that a leader requests in AlterPartition."""

    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    is_recovering: bool

    @property
    def key(self) -> TopicPartition:
        """The topic and partition."""
        return self.topic, self.partition


IsrResults = dict[TopicPartition, PartitionState | ErrorCode]


def alter_partitions(
    context: Context, broker_id: int, broker_epoch: int, changes: Iterable[IsrChange]
) -> Procedure[IsrResults]:
    """Change the ISRs as a leader requests.  Raises: Refused (STALE_BROKER_EPOCH)."""
    broker = context.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is another one by now")
    results: IsrResults = {}
    written: list[PartitionState] = []
    for change in {change.key: change for change in changes}.values():
        state = context.states.get(change.key)
        result = _check(context, broker_id, change, state)
        if result is not None:
            results[change.key] = result
            continue
        assert state is not None
        results[change.key] = changed = state._replace(
            leader=broker_id,
            isr=change.isr,
            partition_epoch=change.partition_epoch + 1,
            controller_epoch=context.controller_epoch,
            is_recovering=change.is_recovering,
        )
        written.append(changed)
    conflicts = (yield WriteStates(written)) if written else ()
    for state in written:
        if state.key in conflicts:
            logger.info("ISR has changed meanwhile topic=%s partition=%d", *state.key)
            results[state.key] = ErrorCode.INVALID_UPDATE_VERSION
        else:
            context.states[state.key] = state
    yield from send_metadata(context, results)
    done = [key for key, result in results.items() if isinstance(result, PartitionState)]
    yield from complete_reassignments(context, done)
    return results


def isr_changes_noticed(
    context: Context, partitions: Collection[TopicPartition]
) -> Procedure[None]:
    """Brokers have changed ISRs themselves (/isr_change_notification): read and distribute them."""
    if not partitions:
        return
    stored = yield ReadStates(list(partitions))
    for key in partitions:
        if key in stored and key[1] in context.assignments.get(key[0], ()):
            context.states[key] = context.state_from(key, stored[key])
    yield from send_metadata(context, partitions)
    yield from complete_reassignments(context, partitions)


def _check(
    context: Context, broker_id: int, change: IsrChange, state: PartitionState | None
) -> PartitionState | ErrorCode | None:
    """The result if no write is needed; None: write the change."""
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if (
        change.partition_epoch > state.partition_epoch or change.leader_epoch > state.leader_epoch
    ):  # the leader has heard from a later controller
        return ErrorCode.NOT_CONTROLLER
    if change.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    asked = (broker_id, change.isr, change.is_recovering)
    if asked == (state.leader, state.isr, state.is_recovering):
        return state
    if change.partition_epoch < state.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if change.is_recovering and (len(change.isr) > 1 or not state.is_recovering):
        return ErrorCode.INVALID_REQUEST
    if not context.live.issuperset(change.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return None if _is_sound(change, broker_id, state) else ErrorCode.INVALID_REQUEST


def _is_sound(change: IsrChange, broker_id: int, state: PartitionState) -> bool:
    """Whether the change is valid; Kafka 3.9 does not check this, and trusts the brokers.

    A replica that a reassignment has removed stays in the ISR until the controller takes it out. If
    another replica joins meanwhile, the leader still names the removed one.
    """
    return (
        broker_id == state.leader
        and broker_id in change.isr
        and len(set(change.isr)) == len(change.isr)
        and set(change.isr) <= {*state.replicas, *state.isr}
    )
