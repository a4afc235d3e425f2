"""What must be so at every step, and which transitions of the state tables were taken."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from odradek.broker.core.controller import partition_machine, replica_machine
from odradek.broker.core.controller.context import Context, TopicNode
from odradek.broker.core.controller.effects import StoredState
from odradek.broker.core.controller.status import PartitionStatus, ReplicaStatus
from odradek.broker.core.partition_state import NO_LEADER, PartitionState, TopicPartition

Id = tuple[bytes, int]
"""A partition for good: a name may be used again."""


class Checks:
    """What has been seen so far. Each method asserts."""

    def __init__(self) -> None:
        self.unclean: set[bytes] = set()
        """Ids of topics whose records may be lost."""
        self._history: dict[Id, list[StoredState]] = {}
        self._leaders: dict[tuple[Id, int], int] = {}

    def state_written(
        self,
        node: TopicNode,
        state: PartitionState,
        before: StoredState | None,
        now: StoredState,
        controller_epoch: int,
        *,
        is_fenced: bool,
    ) -> None:
        """A state node was made (`before` is None) or written."""
        assert now.isr and len(set(now.isr)) == len(now.isr), (state, before)
        assert now.leader == NO_LEADER or now.leader in now.isr, (state, before)
        assert state.topic_id == node.topic_id
        known = self._history.setdefault((state.topic_id, state.partition), [])
        assert now.partition_epoch == len(known), "no version is left out"
        known.append(now)
        assert now.controller_epoch <= controller_epoch
        is_unclean = state.topic_id in self.unclean
        assert is_unclean or not now.is_recovering
        if now.leader != NO_LEADER:
            its = (state.topic_id, state.partition), now.leader_epoch
            assert self._leaders.setdefault(its, now.leader) == now.leader, "one leader an epoch"
        replicas = set(node.partitions[state.partition].replicas)
        if before is None:
            assert replicas.issuperset(now.isr), (state, node)
            assert now.leader_epoch == 0
            return
        assert now.leader_epoch >= before.leader_epoch, (state, before)
        assert now.controller_epoch >= before.controller_epoch, (state, before)
        joined = set(now.isr).difference(before.isr)
        if now.leader_epoch == before.leader_epoch:
            assert now.leader == before.leader != NO_LEADER, (state, before)
            # A leader that writes itself does not wait for its turn behind a reassignment.
            assert replicas.issuperset(joined) or not is_fenced, (state, node)
        else:
            assert is_unclean or not joined, "a controller brings no replica in sync"
            assert is_unclean or now.leader in (NO_LEADER, *before.isr), (state, before)
            assert replicas.issuperset({now.leader} - {NO_LEADER, before.leader}), (state, node)

    def latest(self, state: PartitionState) -> StoredState:
        """The state of a partition that was written last."""
        return self._history[state.topic_id, state.partition][-1]

    def forget_all_but(self, stored: Mapping[TopicPartition, tuple[bytes, StoredState]]) -> None:
        """The store has lost what was not durable; it has these topic ids and states."""
        kept = {
            (topic_id, key[1]): state.partition_epoch + 1
            for key, (topic_id, state) in stored.items()
        }
        for its, states in self._history.items():
            del states[kept.get(its, len(states)) :]
        self._leaders = {
            (its, epoch): leader
            for (its, epoch), leader in self._leaders.items()
            if its not in kept or epoch <= self._history[its][-1].leader_epoch
        }

    def isr_known(self, state: PartitionState) -> None:
        """What a broker knows was written."""
        stored = self._history[state.topic_id, state.partition][state.partition_epoch]
        assert (stored.leader, stored.leader_epoch) == (state.leader, state.leader_epoch)
        assert set(stored.isr) == set(state.isr), (state, stored)


class Transitions:
    """Pairs of states, the first of which was followed by the second."""

    def __init__(self) -> None:
        self.partitions: set[tuple[PartitionStatus, PartitionStatus]] = set()
        self.replicas: set[tuple[ReplicaStatus, ReplicaStatus]] = set()
        self._tried: dict[tuple[int, TopicPartition, int | None], tuple[Context, Any, Any]] = {}

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Look at all that controllers do meanwhile."""
        may_partition = partition_machine._may_change
        may_replica = replica_machine._may_change

        def partition(context: Context, key: TopicPartition, target: PartitionStatus) -> bool:
            before = _partition_status(context, key)
            return self._try(
                context, key, None, before, target, may_partition(context, key, target)
            )

        def replica(
            context: Context, broker_id: int, key: TopicPartition, target: ReplicaStatus
        ) -> bool:
            before = _replica_status(context, key, broker_id)
            may = may_replica(context, broker_id, key, target)
            return self._try(context, key, broker_id, before, target, may)

        with (
            mock.patch.object(partition_machine, "_may_change", partition),
            mock.patch.object(replica_machine, "_may_change", replica),
        ):
            yield

    def _try(
        self,
        context: Context,
        key: TopicPartition,
        broker_id: int | None,
        before: Any,
        target: Any,
        may: bool,
    ) -> bool:
        tried = self._tried.pop((id(context), key, broker_id), None)
        if tried is not None and tried[2] is before:
            self._note(broker_id, tried[1], tried[2])
        if may:
            self._tried[id(context), key, broker_id] = context, before, target
        return may

    def sweep(self) -> None:
        """Note what has become of the steps that were tried."""
        for its, (context, before, target) in list(self._tried.items()):
            _, key, broker_id = its
            if broker_id is None:
                status: Any = _partition_status(context, key)
            else:
                status = _replica_status(context, key, broker_id)
            if status is target:
                self._note(broker_id, before, target)
                del self._tried[its]

    def forget(self) -> None:
        """Another cluster begins."""
        self._tried.clear()

    def _note(self, broker_id: int | None, before: Any, target: Any) -> None:
        pairs: set[Any] = self.partitions if broker_id is None else self.replicas
        pairs.add((before, target))


def _partition_status(context: Context, key: TopicPartition) -> PartitionStatus:
    return context.partition_status.get(key, PartitionStatus.NON_EXISTENT)


def _replica_status(context: Context, key: TopicPartition, broker_id: int) -> ReplicaStatus:
    return context.replica_status.get(key, {}).get(broker_id, ReplicaStatus.NON_EXISTENT)
