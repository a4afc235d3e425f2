"""Replicas with a damaged log, which are copied again from an in-sync replica.

If a replica started with an empty log while it leads or is in sync, committed records could be
lost. So the controller is notified first, as after a log directory failure
(`/log_dir_event_notification`). It sends LeaderAndIsr again, and gets KAFKA_STORAGE_ERROR. From
then on the replica is not served. The controller elects another leader and removes the replica from
the ISR; when notified once more, it sends the new leader. Only then is the damaged directory set
aside and an empty one filled from that leader. This also waits until the controller would have
noticed a leader that was already dead when elected, since the sound records here would then be the
last copy.

While no other replica is in sync, the replica continues to serve its sound records. It also does so
while there is no room for a copy beside the old log: a full disk would stop all other replicas on
it.
"""

import asyncio
import logging
from collections.abc import Container
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from odradek.storage.errors import LogDirFailed
from odradek.storage.log.log import Log

from ..core.partition import Partition
from ..core.partition_state import NO_LEADER, PartitionState, TopicPartition
from ..core.replica_status import Event
from ..metrics.counters import REPLICAS_COPIED_ANEW, REPLICAS_DAMAGED
from ..runtime import Runtime

if TYPE_CHECKING:
    from .replicas import Replicas

logger = logging.getLogger(__name__)

LOOK_MS: Final = 200
ASK_AGAIN_MS: Final = 2_000
ASK_AGAIN_MAX_MS: Final = 60_000
ROOM_BYTES_MIN: Final = 256 << 20
"""The free space that is needed beyond the size of the log."""


class Verdict(Enum):
    """What to do with a role that the controller gives to a replica."""

    TAKE = auto()
    """Take the role as usual: no damage, no replica to copy from, or no room for the copy."""
    FAIL = auto()
    """Stop serving the replica and answer KAFKA_STORAGE_ERROR, so that another one leads."""
    COPY_ANEW = auto()
    """Set the log aside and start with an empty one."""


@dataclass(slots=True)
class _Damaged:
    """One damaged replica."""

    log: Log
    ask_at_ms: int
    pause_ms: int = ASK_AGAIN_MS
    failed_in: PartitionState | None = None
    """The role since which the replica is not served."""
    copy_at_ms: int = 0
    has_room: bool = True
    said: str = ""
    """The last logged reason why the damaged log stays."""


class DamagedReplicas:
    """The damaged replicas of one broker."""

    def __init__(
        self, replicas: "Replicas", runtime: Runtime, broker_id: int, *, unnoticed_ms: int
    ) -> None:
        """`unnoticed_ms`: how long a broker may be dead before the controller notices."""
        self._replicas = replicas
        self._clock = runtime.clock
        self._offload = runtime.offload
        self._broker_id = broker_id
        self._unnoticed_ms = unnoticed_ms
        self._damaged: dict[TopicPartition, _Damaged] = {}
        self._changed = asyncio.Event()

    def want(self, log: Log) -> None:
        """Damage was found in the log of a replica."""
        key = log.topic, log.partition
        known = self._damaged.get(key)
        if (known and known.log is log) or self._replicas.log_dirs.find(*key) is not log:
            return
        self._replicas.counters.add(REPLICAS_DAMAGED)
        logger.error("replica damaged log=%r directory=%s", log, log.directory)
        self._damaged[key] = _Damaged(log, self._clock.now_ms())
        self._changed.set()

    # Requests of the controller.

    def judge(self, state: PartitionState, live: Container[int]) -> Verdict:
        """Decide what to do with this role; an outdated role changes nothing."""
        damaged = self._damaged.get(state.key)
        if damaged is None or not damaged.has_room or not _is_left(damaged.log):
            return Verdict.TAKE
        served = self._replicas.partitions.get(state.key)
        known = damaged.failed_in if served is None else served.state
        if known is not None and (
            state.leader_epoch < known.leader_epoch or state.partition_epoch < known.partition_epoch
        ):
            return Verdict.TAKE if served is not None else Verdict.FAIL
        others = any(replica != self._broker_id and replica in live for replica in state.isr)
        if not others or self._broker_id not in state.replicas:
            return Verdict.TAKE
        if self._broker_id in state.isr or state.leader == self._broker_id:
            return Verdict.FAIL
        if state.leader not in live:
            return Verdict.TAKE
        return Verdict.COPY_ANEW if self._clock.now_ms() >= damaged.copy_at_ms else Verdict.FAIL

    def failed(self, state: PartitionState) -> None:
        """Note that KAFKA_STORAGE_ERROR is returned and the replica is no longer served."""
        damaged, now_ms = self._damaged[state.key], self._clock.now_ms()
        self._replicas.statuses.note(state.key, Event.GIVE_UP)
        if damaged.failed_in is None:
            logger.error("damaged replica given up log=%r isr=%s", damaged.log, state.isr)
            damaged.copy_at_ms = now_ms + self._unnoticed_ms
        damaged.failed_in = state
        damaged.ask_at_ms = now_ms + ASK_AGAIN_MS
        damaged.pause_ms = 2 * ASK_AGAIN_MS

    def stopped(self, key: TopicPartition) -> None:
        """Note the controller's StopReplica: by then it has elected another leader."""
        damaged = self._damaged.get(key)
        if damaged is not None and damaged.failed_in is not None:
            damaged.ask_at_ms = max(self._clock.now_ms(), damaged.copy_at_ms)

    def set_aside(self, key: TopicPartition, directory: str) -> None:
        """The damaged log is out of the way; an empty one will be filled."""
        self._damaged.pop(key, None)  # the damage may be gone already, with its segment
        self._replicas.counters.add(REPLICAS_COPIED_ANEW)
        logger.error(
            "damaged replica set aside, copied anew topic=%s partition=%d directory=%s",
            *key,
            directory,
        )

    # Asking the controller to send LeaderAndIsr again.

    async def run(self) -> None:
        """Notify the controller whenever that is due, forever."""
        while True:
            if not self._damaged:
                self._changed.clear()
                await self._changed.wait()
            await self.look_for_room()
            if self.look():
                self._replicas.on_log_dir_failed(())
            await asyncio.sleep(LOOK_MS / 1000)

    async def look_for_room(self) -> None:
        """Check whether there is room for the copies beside the damaged logs."""
        data_dirs = self._replicas.log_dirs.for_new_partition()
        due = [d for d in self._damaged.values() if self._clock.now_ms() >= d.ask_at_ms]
        if not data_dirs or not due:
            return
        try:
            _, free_bytes = await self._offload(data_dirs[0].space)
        except LogDirFailed as error:
            self._replicas.take_offline(error)
            return
        for damaged in due:
            damaged.has_room = free_bytes >= damaged.log.size_bytes + ROOM_BYTES_MIN

    def look(self) -> bool:
        """Whether the controller must be notified now; also schedules the next notification."""
        now_ms, is_due = self._clock.now_ms(), False
        for key, damaged in list(self._damaged.items()):
            if self._is_over(damaged):
                del self._damaged[key]
            elif now_ms >= damaged.ask_at_ms and self._may_ask(key, damaged):
                damaged.ask_at_ms = now_ms + damaged.pause_ms
                if now_ms < damaged.copy_at_ms:
                    damaged.ask_at_ms = min(damaged.ask_at_ms, damaged.copy_at_ms)
                damaged.pause_ms = min(2 * damaged.pause_ms, ASK_AGAIN_MAX_MS)
                is_due = True
        return is_due

    def _is_over(self, damaged: _Damaged) -> bool:
        log = damaged.log
        if self._replicas.log_dirs.find(log.topic, log.partition) is not log:
            return True
        return damaged.failed_in is None and not _is_left(log)

    def _may_ask(self, key: TopicPartition, damaged: _Damaged) -> bool:
        served = self._replicas.partitions.get(key)
        if served is None:
            return damaged.failed_in is not None  # otherwise it has no role yet
        if damaged.failed_in is not None:  # it is served again: it could not be copied
            damaged.failed_in, damaged.pause_ms = None, ASK_AGAIN_MS
        if not damaged.has_room:
            reason = "there is no room for a copy"
        elif not self._has_source(served):
            reason = "nobody else is in sync"
        else:
            return True
        if damaged.said != reason:
            damaged.said = reason
            logger.error("damaged replica stays, %s log=%r", reason, damaged.log)
        return False

    def _has_source(self, served: Partition) -> bool:
        state = served.state
        if served.is_leader:
            return any(replica != self._broker_id for replica in state.isr)
        return state.leader != NO_LEADER


def _is_left(log: Log) -> bool:
    """Whether damage is left: segments may have expired, or been compacted or truncated."""
    return any(segment.damaged for segment in log.segments)
