"""Applies LeaderAndIsr and StopReplica to the replicas of this broker.

Leaders come first, then followers. Thousands of partitions are handled in slices, so that no turn
of the event loop handles too many.
"""

import logging
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

from odradek.protocol.errors import ErrorCode
from odradek.protocol.primitives import ZERO_UUID
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.log import Log

from ..coordination.interface import Session
from ..core.controller.requests import StoppedReplica
from ..core.log_uses import Act, Use
from ..core.partition import Partition
from ..core.partition_state import NO_LEADER, PartitionState, TopicPartition
from ..core.replica_status import Event, Presence
from ..core.role_rules import judge_role, judge_stop, without_role
from ..runtime import Clock
from ..slices import Slices
from .damaged_replicas import Verdict
from .replicas import Replicas

logger = logging.getLogger(__name__)

Codes = dict[TopicPartition, ErrorCode]
Tell = Callable[[Sequence[TopicPartition]], None]


class Roles:
    """Applies one LeaderAndIsr; `take` may be called once."""

    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        session: Session,
        *,
        broker_id: int,
        live: Container[int],
        controller_epoch: int,
        tell: Tell,
    ) -> None:
        """`tell` is called with the replicas that have a new role, in the same turn of the event
        loop; for replicas whose logs must be created, once all logs exist."""
        self._replicas = replicas
        self._clock = clock
        self._session = session
        self._slices = Slices(clock)
        self._broker_id = broker_id
        self._live = live
        self._controller_epoch = controller_epoch
        self._tell = tell
        self._told: list[TopicPartition] = []
        self._without_leader: list[PartitionState] = []
        self._declined: set[TopicPartition] = set()
        """Replicas that should lead but do not."""
        self._copied_anew: set[TopicPartition] = set()

    async def take(self, states: Iterable[PartitionState]) -> Codes:
        """Apply the roles; returns one code for each partition.

        Raises: CoordinationError if a topic's settings can't be read from the store.
        """
        replicas = self._replicas
        asked = {state.key: state for state in states}
        codes: Codes = {}
        leaders: dict[TopicPartition, PartitionState] = {}
        followers: dict[TopicPartition, PartitionState] = {}
        for key, state in asked.items():
            await self._slices.step()
            code = self._judge(key, state)
            if code is None:
                (leaders if self._leads(state) else followers)[key] = state
            codes[key] = ErrorCode.NONE if code is None else code
        self._say_refused(asked, codes)
        taken = {**leaders, **followers}
        new = [state.topic for key, state in taken.items() if key not in replicas.partitions]
        await replicas.read_overrides(dict.fromkeys(new), self._session)
        for roles in (leaders, followers):
            if roles:
                await self._take(roles)
        await replicas.logs.sync_ids()
        self._say_without_leader()
        for key, state in taken.items():
            if self._has_failed(key, state):
                codes[key] = ErrorCode.KAFKA_STORAGE_ERROR
        return codes

    def _leads(self, state: PartitionState) -> bool:
        """Whether the state names this broker as leader."""
        return state.leader == self._broker_id

    def _is_offline(self, key: TopicPartition) -> bool:
        return self._replicas.statuses[key].presence is Presence.OFFLINE

    def _has_failed(self, key: TopicPartition, state: PartitionState) -> bool:
        """Whether to answer KAFKA_STORAGE_ERROR, so that the controller elects another replica.

        The only replica of a partition can't be replaced. If just its own files can't be created or
        read, no error is returned, as otherwise the topic could not even be deleted. Clients get an
        error for it anyway.
        """
        presence = self._replicas.statuses[key].presence
        if presence is Presence.UNMADE and not self._replicas.is_offline:
            return len(state.replicas) > 1
        return presence is not Presence.SERVED or key in self._declined

    def _judge(self, key: TopicPartition, state: PartitionState) -> ErrorCode | None:
        replicas = self._replicas
        if replicas.is_offline or self._is_offline(key):
            return ErrorCode.KAFKA_STORAGE_ERROR
        verdict = replicas.damaged.judge(state, self._live)
        if verdict is Verdict.FAIL:
            self._give_up(state)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if verdict is Verdict.COPY_ANEW:
            self._copied_anew.add(key)
            return None
        served = replicas.partitions.get(key)
        code = judge_role(
            state,
            broker_id=self._broker_id,
            current=None if served is None else served.state,
            topic_id=replicas.logs.topic_id(state),
        )
        if code == ErrorCode.NONE and served is not None:
            self._give_id(served, state)
        return code

    def _give_up(self, state: PartitionState) -> None:
        self._replicas.damaged.failed(state)
        self._replicas.stop_serving([state.key])
        self._tell([state.key])

    def _give_id(self, partition: Partition, state: PartitionState) -> None:
        if partition.log.topic_id is None and state.topic_id != ZERO_UUID:
            self._replicas.logs.assign_topic_id(partition.log, state.topic_id)
            self._replicas.note_id(partition)

    async def _take(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Apply roles that are all leaders, or all followers."""
        replicas = self._replicas
        missing: list[PartitionState] = []
        await self._make_cuts_safe(states.values())
        for key, state in states.items():
            if key in self._copied_anew:
                await self._set_aside(key)
            self._serve_cut(key, state)
            await self._make_cuts_safe([state])
            partition = replicas.partitions.get(key)
            if self._is_offline(key):  # it went offline meanwhile
                pass
            elif partition is not None:
                if self._leads(state) and not replicas.uses.may(Act.APPEND, partition.log):
                    self._refuse(state)  # the disk is full
                elif self._may_lead(state, partition.log):
                    self._become(partition, state)
            elif (log := replicas.logs.find(state)) is not None:
                self._serve(log, state)
            elif self._replicas.log_dirs.holds(key):
                replicas.statuses.note(key, Event.LACK_LOG)
            elif state.is_new or key in self._copied_anew or replicas.log_dirs.is_complete:
                missing.append(state if self._may_lead(state, None) else without_role(state))
            else:
                reason = "it may lie in a log directory that has failed"
                logger.error("replica offline topic=%s partition=%d reason=%s", *key, reason)
                replicas.statuses.note(key, Event.FAIL_DIR)
            if self._slices.is_over:
                self._flush()
                await self._slices.pause()
        self._flush()
        if missing:
            await self._make(missing)

    async def _make(self, missing: Sequence[PartitionState]) -> None:
        await self._replicas.logs.make(missing, self._serve)
        for state in missing:
            if state.key in self._declined:
                self._replicas.suspects.add(state.key, "its log is lost")
        self._flush()

    def _serve_cut(self, key: TopicPartition, state: PartitionState) -> None:
        """Serve, without a role yet, a log cut at a gap: it may lead once the cut is safe."""
        replicas = self._replicas
        if key in replicas.partitions or not self._leads(state) or self._is_offline(key):
            return
        log = replicas.logs.find(state)
        if log is not None and not replicas.uses.may(Act.APPEND, log):
            replicas.serve(log, without_role(state))

    async def _make_cuts_safe(self, states: Iterable[PartitionState]) -> None:
        """Make the cuts of new leaders' logs safe; they may just have been cut as followers."""
        replicas = self._replicas
        if not replicas.uses.having(Use.CUT):  # nearly always; there may be thousands of states
            return
        keys = [state.key for state in states if self._leads(state)]
        try:
            while cut := [
                partition
                for key in keys
                if (partition := replicas.partitions.get(key)) is not None
                and not replicas.uses.may(Act.APPEND, partition.log)
            ]:
                self._flush()
                await replicas.make_cuts_safe(cut)
        except LogDirFailed as error:
            replicas.note_failure(error)

    async def _set_aside(self, key: TopicPartition) -> None:
        self._replicas.stop_serving([key])
        self._told.append(key)
        self._flush()
        await self._replicas.logs.set_aside(key)

    def _may_lead(self, state: PartitionState, log: Log | None) -> bool:
        """Whether the replica may take the role: a suspect one may have to wait before it leads."""
        if not self._leads(state):
            return True
        suspects, epoch = self._replicas.suspects, self._controller_epoch
        may = suspects.may_lead(state, log, self._live, epoch)
        if not may:
            self._declined.add(state.key)
        return may

    def _flush(self) -> None:
        """Report the replicas with a new role, before other tasks run."""
        if self._told:
            told, self._told = self._told, []
            self._tell(told)

    def _become(self, partition: Partition, state: PartitionState) -> None:
        if not self._can_follow(state):
            return
        self._give_id(partition, state)
        try:
            if partition.become(state, self._clock.now_ms()):
                self._told.append(state.key)
                self._replicas.suspects.role_taken(partition)
        except LogDirFailed as error:
            self._refuse(state)
            self._replicas.take_offline(error)

    def _refuse(self, state: PartitionState) -> None:
        self._declined.add(state.key)
        self._replicas.statuses.note(state.key, Event.REFUSE)

    def _serve(self, log: Log, state: PartitionState) -> None:
        takes = self._can_follow(state) and self._may_lead(state, log)
        if self._replicas.serve(log, state if takes else without_role(state)) and takes:
            self._told.append(state.key)
            self._replicas.suspects.role_taken(self._replicas.partitions[state.key])

    def _can_follow(self, state: PartitionState) -> bool:
        """Whether the leader is alive, or is this broker.

        Otherwise the replica stays unchanged and no error is returned, as in Kafka.
        """
        if self._leads(state) or state.leader in self._live:
            return True
        if state.leader != NO_LEADER:  # otherwise the controller knows that there is no leader
            self._without_leader.append(state)
        return False

    def _say_without_leader(self) -> None:
        if self._without_leader:
            logger.warning(
                "leaders are not alive, followers wait leaders=%s count=%d topic=%s partition=%d",
                sorted({state.leader for state in self._without_leader}),
                len(self._without_leader),
                *self._without_leader[0].key,
            )

    def _say_refused(self, asked: Mapping[TopicPartition, PartitionState], codes: Codes) -> None:
        """Log one line per code, as all partitions of a request may get the same.

        A role that is known already is logged at DEBUG: a new controller sends all roles again.
        """
        served = self._replicas.partitions
        refused: dict[tuple[ErrorCode, bool], list[TopicPartition]] = {}
        for key, code in codes.items():
            if code:
                is_known = (
                    code == ErrorCode.STALE_CONTROLLER_EPOCH
                    and key in served
                    and served[key].state.leader_epoch == asked[key].leader_epoch
                )
                refused.setdefault((code, is_known), []).append(key)
        for (code, is_known), keys in refused.items():
            logger.log(
                logging.DEBUG if is_known else logging.WARNING,
                "roles refused code=%s count=%d topic=%s partition=%d",
                code.name,
                len(keys),
                *keys[0],
            )


async def stop(
    replicas: Replicas, clock: Clock, stopped: Collection[StoppedReplica], tell: Tell
) -> Codes:
    """Stop replicas, and delete those marked `delete`; returns one code for each.

    A replica that is only stopped keeps its state and leader epoch, as in Kafka.
    """
    codes: Codes = {}
    doomed: list[TopicPartition] = []
    for replica in {replica.key: replica for replica in stopped}.values():
        served = replicas.partitions.get(replica.key)
        presence = replicas.statuses[replica.key].presence
        if replicas.is_offline or presence is Presence.OFFLINE:
            code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            code = judge_stop(replica.leader_epoch, None if served is None else served.state)
        codes[replica.key] = code
        if code == ErrorCode.NONE and replica.delete:
            doomed.append(replica.key)
        replicas.damaged.stopped(replica.key)
    replicas.stop_serving(doomed)
    tell([key for key, code in codes.items() if code == ErrorCode.NONE])
    slices = Slices(clock)
    for key in doomed:
        await slices.step()
        await replicas.logs.delete(key)
        event = Event.KEEP_NAME if replicas.log_dirs.holds(key) else Event.DELETE
        if (
            replicas.statuses.note(key, event).presence is not Presence.ABSENT
            or replicas.is_offline
        ):
            codes[key] = ErrorCode.KAFKA_STORAGE_ERROR
    replicas.forget_overrides({topic for topic, _ in doomed})
    return codes
