"""The suspect replicas of this broker: whether they may lead, and what ends the suspicion.

A replica is suspect (`storage/directory/suspicion.py`) if it may lack committed records. As long as
another in-sync replica leads, nothing is lost: the suspect one follows it and catches up. If the
suspect one is elected, `odradek.unclean.last.replica` decides whether it leads, as in Kafka, or
declines. Then the controller elects another in-sync replica. If it was the last one, it waits until
the loss is accepted, or the controller has compared all replicas.

Whatever the setting, a suspect replica does not continue to lead in a leader epoch in which it may
have led before, while other in-sync replicas are alive. A machine may fail and return while there
is no controller, and the next controller does not notice. Lost records and newly written ones would
then have the same epoch and offsets, and could not be told apart. Another replica is elected, in a
new leader epoch. Kafka has no such rule.

A replica that declines counts as offline, and the controller sends it no more roles. So once
another replica leads, the controller is asked to send LeaderAndIsr again, as after a log directory
failure.
"""

import asyncio
import logging
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from odradek.storage.directory.suspicion import NotePlan, Suspicion
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.log import Log

from ..config import Config
from ..core.partition import Partition
from ..core.partition_state import LEADER_IS_DELETED, NO_LEADER, PartitionState, TopicPartition
from ..core.replica_status import Claim, Event
from ..core.role_rules import UNKNOWN_EPOCH
from ..metrics.counters import SUSPECT_REPLICAS_LED, SUSPECT_REPLICAS_WAITED
from ..runtime import Runtime
from ..tasks import TaskSupervisor, to_the_end

if TYPE_CHECKING:
    from .replicas import Replicas

logger = logging.getLogger(__name__)

LAST_REPLICA: Final = "odradek.unclean.last.replica"
WAIT: Final = "wait"
ASK_S: Final = 0.5
_WAITS: Final = (
    "it waits until all replicas are there to be compared, or for "
    "`odradek elect-leaders --accept-loss`"
)
_CEDES: Final = "another one in sync is to lead"
_HAS_LED: Final = "it may have led in this epoch before"


@dataclass(slots=True)
class _Known:
    """What is known about a suspect replica besides its status."""

    past_epoch: int = UNKNOWN_EPOCH
    """It may have led in this leader epoch, or in an earlier one, before this process."""
    was_out: bool = False
    """It was seen out of the ISR."""
    is_doomed: bool = False
    """Its topic is being deleted: no other replica is elected, and while it declines it can't be
    deleted."""


class Suspects:
    """Which replicas are suspect, by (topic, partition); changes are written in the background."""

    def __init__(
        self,
        replicas: "Replicas",
        config: Config,
        runtime: Runtime,
        tasks: TaskSupervisor,
        *,
        broker_id: int,
    ) -> None:
        self._replicas = replicas
        self._log_dirs = replicas.log_dirs
        self._counters = replicas.counters
        self._config = config
        self._runtime = runtime
        self._tasks = tasks
        self._broker_id = broker_id
        self._statuses = replicas.statuses
        self._known: dict[TopicPartition, _Known] = {}
        self._is_writing = False
        self._is_asking = self._must_ask = False

    def __contains__(self, key: TopicPartition) -> bool:
        return self._log_dirs.is_suspect(key)

    def _of(self, key: TopicPartition) -> _Known:
        return self._known.setdefault(key, _Known())

    # Leading.

    def may_lead(
        self, state: PartitionState, log: Log | None, live: Container[int], controller_epoch: int
    ) -> bool:
        """Whether a replica that was elected may lead now; logs an error if it is suspect.

        A replica without a log is suspect if the partition is not new: its log must have been lost.
        `controller_epoch` is that of the requesting controller, and `live` the brokers it knows.
        """
        is_lost = log is None and not state.is_new and state.partition_epoch > 0
        if not (is_lost or state.key in self) or self._of(state.key).is_doomed:
            return True
        if self._may_have_led(state, controller_epoch) and self._is_replaceable(state, live):
            return self._decline(state, log, Event.CEDE, f"{_HAS_LED}: {_CEDES}")
        has_others = any(replica != self._broker_id for replica in state.isr)
        if len(state.replicas) == 1:
            return self._may(state, log, "it is the only replica")
        if state.is_loss_accepted:
            return self._may(state, log, "the loss is accepted")
        if self._replicas.topic_config(state.topic).unclean_leader_election_enable:
            return self._may(state, log, "unclean.leader.election.enable=true")
        if self._config.odradek_unclean_last_replica != WAIT:
            because = "others in sync will follow it" if has_others else f"{LAST_REPLICA}=lead"
            return self._may(state, log, because)
        if has_others:
            return self._decline(state, log, Event.CEDE, f"{LAST_REPLICA}=wait: {_CEDES}")
        return self._decline(state, log, Event.WAIT, f"{LAST_REPLICA}=wait: {_WAITS}")

    def _may_have_led(self, state: PartitionState, controller_epoch: int) -> bool:
        """Whether this leader epoch may be from before this process.

        A controller notices every restart of a broker during its term, so such an epoch is from an
        earlier controller. But the controller may first send an epoch as an earlier controller's,
        and later as its own. The log can't tell: its latest epoch may be lost, too.
        """
        served = self._replicas.partitions.get(state.key)
        has_role = served is not None and served.state.leader_epoch != UNKNOWN_EPOCH
        known = self._of(state.key)
        if not has_role and state.controller_epoch < controller_epoch:
            known.past_epoch = state.leader_epoch
        # Until the controller knows of a decline, it may raise the epoch without an election.
        is_ceded = self._statuses[state.key].claim is Claim.CEDED
        return is_ceded or state.leader_epoch <= known.past_epoch

    def _is_replaceable(self, state: PartitionState, live: Container[int]) -> bool:
        return any(replica != self._broker_id and replica in live for replica in state.isr)

    def _decline(self, state: PartitionState, log: Log | None, event: Event, reason: str) -> bool:
        self._statuses.note(state.key, event)
        self._counters.add(SUSPECT_REPLICAS_WAITED)
        logger.error(
            "suspect replica does not lead topic=%s partition=%d log_end_offset=%d "
            "high_watermark=%d last_epoch=%d reason=%s",
            *_named(state, log),
            reason,
        )
        return False

    def _may(self, state: PartitionState, log: Log | None, because: str) -> bool:
        self._counters.add(SUSPECT_REPLICAS_LED)
        logger.error(
            "suspect replica leads, committed records may be lost topic=%s partition=%d "
            "log_end_offset=%d high_watermark=%d last_epoch=%d reason=%s",
            *_named(state, log),
            because,
        )
        return True

    def add(self, key: TopicPartition, reason: str) -> None:
        """Mark a replica as suspect; its log exists by now."""
        log = self._log_dirs.find(*key)
        if log is not None:
            self._log_dirs.holding(log).suspicion.add(key, reason)
            self._write_soon()

    # The end of suspicion.

    def role_taken(self, partition: Partition) -> None:
        """Note a new role. If the replica leads, its log is the reference, whatever it lacks."""
        key = partition.state.key
        self._statuses.note(key, Event.TAKE_ROLE)
        if partition.is_leader:
            self.forget(key)

    def followed(self, partition: Partition, high_watermark: int) -> None:
        """The follower matches its leader up to its log end; `high_watermark` is the leader's.

        With a record of the leader's epoch, it has everything that the leader had when the epoch
        began. With its log end at the high watermark or beyond, it has everything committed since.
        """
        log, key = partition.log, partition.state.key
        if (
            key in self
            and log.log_end_offset >= high_watermark
            and log.epochs.latest == partition.state.leader_epoch
        ):
            self._clear(key, "it has caught up with its leader")

    def told(self, states: Iterable[PartitionState]) -> None:
        """Evaluate the controller's states: a leader adds only caught-up replicas to the ISR."""
        if not any(data_dir.suspicion.suspects for data_dir in self._log_dirs.online):
            return
        for state in states:
            key = state.key
            if key not in self:
                continue
            claim = self._statuses[key].claim
            is_doomed = state.leader == LEADER_IS_DELETED and claim is Claim.WAITING
            if claim is Claim.CEDED or is_doomed:
                self._note_successor(state)
            known = self._of(key)
            if self._broker_id not in state.isr:
                known.was_out = True
            elif known.was_out and state.leader not in (self._broker_id, NO_LEADER):
                self._clear(key, "its leader has taken it in sync")

    def _note_successor(self, state: PartitionState) -> None:
        """Handle the new leader after this replica declined; without one, it may lead itself."""
        is_doomed = state.leader == LEADER_IS_DELETED
        if is_doomed:
            self._of(state.key).is_doomed = True
        if is_doomed or (
            state.leader == NO_LEADER and self._config.odradek_unclean_last_replica != WAIT
        ):
            self._statuses.note(state.key, Event.CLEAR)
            self._must_ask = True
            self._ask_soon()
        elif state.leader not in (self._broker_id, NO_LEADER):
            self._ask_soon()

    def _clear(self, key: TopicPartition, reason: str) -> None:
        logger.info("replica is no longer suspect topic=%s partition=%d reason=%s", *key, reason)
        self.forget(key)

    def forget(self, key: TopicPartition) -> None:
        """A replica is no longer suspect, or no longer here."""
        claim = self._statuses[key].claim
        if claim is Claim.CEDED:  # if deleted, the controller believes that it could not be deleted
            self._must_ask = True
            self._ask_soon()
        if claim is not Claim.NONE:
            self._statuses.note(key, Event.CLEAR)
        self._known.pop(key, None)
        for data_dir in self._log_dirs.online:
            if key in data_dir.suspicion.suspects:
                data_dir.suspicion.suspects.discard(key)
                self._write_soon()

    def _ask_soon(self) -> None:
        if not self._is_asking:
            self._is_asking = True
            self._tasks.spawn(self._ask(), "ask who leads suspect replicas")

    async def _ask(self) -> None:
        """Have the controller send the roles again, unless it has done so meanwhile."""
        await asyncio.sleep(ASK_S)
        self._ask_if_needed()

    def _ask_if_needed(self) -> bool:
        self._is_asking = False
        if not (self._must_ask or any(self._statuses.where(Claim.CEDED))):
            return False
        self._must_ask = False
        self._replicas.on_log_dir_failed(())
        return True

    # Writing the list of suspects to disk.

    def _write_soon(self) -> None:
        if not self._is_writing:
            self._is_writing = True
            self._tasks.spawn(self._write(), "note suspect replicas")

    async def _write(self) -> None:
        try:
            self._log_dirs.settle_suspicion()
            while (found := self._next()) is not None:
                suspicion, plan = found
                await to_the_end(self._runtime.offload(plan.run))
                suspicion.planned(plan)
        except LogDirFailed as error:  # the file stays outdated until the next change
            self._replicas.note_failure(error)
        finally:
            self._is_writing = False

    def _next(self) -> tuple[Suspicion, NotePlan] | None:
        for data_dir in self._log_dirs.online:
            plan = data_dir.suspicion.plan()
            if plan is not None:
                return data_dir.suspicion, plan
        return None


def _named(state: PartitionState, log: Log | None) -> tuple[str, int, int, int, int]:
    if log is None:
        return state.topic, state.partition, 0, 0, -1
    ends = log.log_end_offset, log.high_watermark, log.epochs.latest
    return state.topic, state.partition, *ends
