"""In-sync sets that the leaders on a simulated broker want, on their way to the controller."""

# mypy: disable-error-code="func-returns-value, return, return-value, misc"

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.context import Context
from odradek.broker.core.controller.effects import Procedure
from odradek.broker.core.controller.procedures import IsrChange, IsrResults
from odradek.broker.core.isr import Proposal
from odradek.broker.core.partition import Partition
from odradek.broker.core.partition_state import PartitionState, TopicPartition
from odradek.protocol.errors import ErrorCode, Refused

from .store import ClusterStore
from .world import NOTHING, RETRY_MS

if TYPE_CHECKING:
    from .broker import SimBroker

Proposed = dict[TopicPartition, tuple[Partition, Proposal]]


class Proposals:
    """As `IsrChanges`: one request is under way, and repeated until a controller answers."""

    def __init__(self, broker: "SimBroker") -> None:
        self._broker = broker
        self._waiting: dict[TopicPartition, Partition] = {}
        self._is_asking = False

    def begin_anew(self) -> None:
        """The session has ended: what was to be written there may not have been."""
        self._is_asking = False
        for partition in list(self._broker.replicas.partitions.values()):
            if partition.proposal is not None:
                self.propose(partition)

    def propose(self, partition: Partition) -> None:
        """Ask for what the leader of a partition wants, with all that waits."""
        self._waiting[partition.state.key] = partition
        if not self._is_asking:
            self._is_asking = True
            self._broker.soon(0, self._propose_all)

    def _propose_all(self) -> object:
        """Ask for all that waits and still counts."""
        waiting, self._waiting = self._waiting, {}
        proposed: Proposed = {}
        for key, partition in waiting.items():
            proposal = partition.proposal
            if proposal is not None and self._broker.replicas.partitions.get(key) is partition:
                proposed[key] = partition, proposal
        self._is_asking = bool(proposed)
        if not proposed:
            return NOTHING
        if self._broker.writes_isr:
            self._write_isrs(proposed)
        else:
            self._alter(proposed, self._request(proposed))
        return None

    def _request(self, proposed: Proposed) -> Callable[[Context], Procedure[Any]]:
        epoch = self._broker.broker_epoch
        asked = [
            (
                partition.state.topic_id,
                IsrChange(
                    *key,
                    proposal.leader_epoch,
                    proposal.partition_epoch,
                    proposal.isr,
                    is_recovering=False,
                ),
            )
            for key, (partition, proposal) in proposed.items()
        ]

        def alter(context: Context) -> Procedure[IsrResults]:
            broker = context.brokers.get(self._broker.broker_id)
            if broker is None or broker.epoch != epoch:
                raise Refused(ErrorCode.STALE_BROKER_EPOCH)
            known = [change for topic_id, change in asked if topic_id in context.topic_names]
            results = yield from procedures.alter_partitions(
                context, self._broker.broker_id, epoch, known
            )
            for topic_id, change in asked:
                if topic_id not in context.topic_names:
                    results.setdefault(change.key, ErrorCode.UNKNOWN_TOPIC_ID)
            return results

        return alter

    def _alter(self, proposed: Proposed, request: Callable[[Context], Procedure[Any]]) -> object:
        def again() -> object:
            return self._alter(proposed, request)

        def answered(results: Any, is_late: bool) -> object:
            if is_late:
                return NOTHING
            codes = [results.code] if isinstance(results, Refused) else results.values()
            if ErrorCode.NOT_CONTROLLER in codes:
                return self._broker.soon(RETRY_MS, again)
            for key, (partition, proposal) in proposed.items():
                if isinstance(results, Refused) or self._settle(partition, proposal, results[key]):
                    self._waiting.setdefault(key, partition)
            return self._broker.soon(RETRY_MS, self._propose_all)

        target = self._broker.others.get(self._broker.metadata.controller_id)
        if target is None:
            return self._broker.soon(RETRY_MS, again)
        return self._broker.ask_controller(target, request, answered, again)

    def _settle(
        self, partition: Partition, proposal: Proposal, result: PartitionState | ErrorCode
    ) -> bool:
        """Tell a partition what became of its proposal; whether to propose again."""
        if not isinstance(result, PartitionState):
            return partition.isr_refused(proposal, result)
        partition.isr_altered(proposal, result.isr, result.leader_epoch, result.partition_epoch)
        self._broker.checks.isr_known(partition.state)
        return False

    def _write_isrs(self, proposed: Proposed) -> None:
        def write(store: ClusterStore, is_retry: bool) -> Any:
            results: dict[TopicPartition, PartitionState | ErrorCode] = {}
            for key, (partition, proposal) in proposed.items():
                state = partition.state._replace(
                    leader_epoch=proposal.leader_epoch,
                    isr=proposal.isr,
                    partition_epoch=proposal.partition_epoch + 1,
                    is_recovering=False,
                )
                # As in Kafka where the version is another: an earlier session may have done it.
                is_written = store.holds(state) or store.write_as_leader(state)
                results[key] = state if is_written else ErrorCode.INVALID_UPDATE_VERSION
            return results

        def written(results: Any) -> object:
            for key, (partition, proposal) in proposed.items():
                if self._settle(partition, proposal, results[key]):
                    self._waiting.setdefault(key, partition)
            return self._propose_all()

        if self._broker.session is None or not self._broker.session.is_alive:
            self._broker.soon(RETRY_MS, self._propose_all)
            for key, (partition, _) in proposed.items():
                self._waiting.setdefault(key, partition)
        else:
            self._broker.op(write, written)
