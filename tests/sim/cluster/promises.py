"""What was committed, and who must have it.

A record below the high watermark of a leader is a promise: from then on every member of the
in-sync set that the store knows has it on its disks, byte for byte, and every leader to come. Only
a machine that crashes may take it away from a member (what was not synced is lost); such a member
is *forgiven* until it leaves the in-sync set or has again what its leader remembers of it, and if
it is elected before, records are lost for good. That is the hole which ZooKeeper mode has: nobody
tells the controller that a broker has come back with less. A member that joins by a fetch from
before its loss is forgiven likewise.

A leader that writes the in-sync set itself may take in a replica that a reassignment has given up
and deleted; until the controller has raised the leader epoch it is a member that is no replica.
"""

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.broker.core.partition import Partition
from odradek.broker.core.partition_state import PartitionState, TopicPartition
from odradek.protocol.records.batch import (
    HEADER,
    HEADER_SIZE_BYTES,
    LENGTH_OVERHEAD_BYTES,
    read_header,
)
from odradek.storage.log.checkpoint import parse_partition_metadata, render_partition_metadata

from .store import ClusterStore
from .world import World

if TYPE_CHECKING:
    from .broker import SimBroker

Id = tuple[bytes, int]
"""A partition for good: a name may be used again."""
STALE_MS: Final = 1500
"""No message is under way for longer."""


class Kept:
    """What is committed of one partition."""

    __slots__ = ("_open", "data", "marks", "offset_end", "position_of")

    def __init__(self) -> None:
        self.data = bytearray()
        self._open: dict[int, int] = {}
        """Where the transactions begin of which no marker is committed, by producer id."""
        self.offset_end = 0
        self.position_of = {0: 0}
        """Where the batch with this offset begins."""
        self.marks: list[tuple[int, int]] = []
        """Up to which offset, in which leader epoch it was committed, rising."""

    def add(self, raw: bytes, offset_end: int, leader_epoch: int) -> None:
        """A leader with this log has its high watermark there."""
        position = len(self.data)
        for base_offset, end, position_end in batches(raw, position):
            assert base_offset == self.offset_end, (
                f"a gap: {self.offset_end} {self.marks[-3:]} {batches(raw, 0)[-4:]}"
            )
            if end > offset_end:
                break
            self._note(raw, position)
            self.offset_end = end
            self.position_of[end] = position_end
            position = position_end
        self.data += raw[len(self.data) : position]
        assert self.offset_end == offset_end, (
            f"the high watermark {offset_end} is no end of a batch: {self.marks[-3:]}"
        )
        self.marks.append((offset_end, leader_epoch))

    def lose(self, raw: bytes) -> None:
        """Only what this log shares is committed from now on."""
        for offset in sorted(self.position_of, reverse=True):
            position = self.position_of[offset]
            if raw[:position] == self.data[:position]:
                break
            del self.position_of[offset]
        del self.data[position:]
        self.offset_end = offset
        self._open.clear()
        for start in sorted(self.position_of.values())[:-1]:
            self._note(self.data, start)

    def _note(self, raw: bytes | bytearray, position: int) -> None:
        header = read_header(raw, position)
        if header.is_control:
            self._open.pop(header.producer_id, None)
        elif header.is_transactional:
            self._open.setdefault(header.producer_id, header.base_offset)

    @property
    def stable_offset(self) -> int:
        """The last stable offset of who knows that all of this is committed."""
        return min(self._open.values(), default=self.offset_end)

    def due(self, leader_epoch: int) -> int:
        """How many bytes a leader of this epoch has to have."""
        if self.marks and self.marks[-1][1] <= leader_epoch:
            return len(self.data)
        known = [offset for offset, epoch in self.marks if epoch <= leader_epoch]
        offset = min(known[-1] if known else 0, self.offset_end)
        return self.position_of[offset]


def batches(raw: bytes, position: int) -> "list[tuple[int, int, int]]":
    """(base offset, offset end, position end) of the whole batches from a position on."""
    found = []
    while position + HEADER_SIZE_BYTES <= len(raw):
        fields = HEADER.unpack_from(raw, position)
        position += fields[1] + LENGTH_OVERHEAD_BYTES
        if position > len(raw) or fields[1] <= 0:
            break
        found.append((fields[0], fields[0] + fields[6] + 1, position))
    return found


class Forgiven(NamedTuple):
    """A member of an in-sync set that may lack what was committed."""

    since_ms: int


class Promises:
    """What is promised in one cluster; each method asserts."""

    def __init__(self, world: World, store: ClusterStore, brokers: "dict[int, SimBroker]") -> None:
        self.unclean: set[bytes] = set()
        """Ids of topics whose records may be lost."""
        self.doomed: set[bytes] = set()
        """Ids of topics that somebody wants deleted."""
        self.holes = 0
        """How often committed records were lost as they may be."""
        self.may_lose = True
        self._world = world
        self._store = store
        self._brokers = brokers
        self._kept: dict[Id, Kept] = {}
        self._forgiven: dict[tuple[Id, int], Forgiven] = {}
        self._hole_epochs: dict[Id, int] = {}
        """The leader epoch in which committed records were lost: older leaders count no more."""
        self._lossy: set[tuple[Id, int]] = set()
        """Replicas that have ever lost something."""
        self._led: dict[Id, int] = {}
        """The leader epoch in which a leader has lost something."""
        self._led_by: dict[tuple[Id, int], int] = {}
        """The latest epoch in which a broker has led."""
        self._suspect: set[Id] = set()
        """Those of them whose leader knows that it may have."""
        self._split: set[Id] = set()
        """Partitions with an epoch that was led twice, the second time with less, or with a gap."""
        self._joining: dict[tuple[Id, int, int], int] = {}
        """How often a follower had lost something when it asked for what lets it join."""

    # What is written.

    def kept(self, state: PartitionState) -> Kept:
        """What is committed of a partition."""
        its = state.topic_id, state.partition
        found = self._kept.get(its)
        if found is None:
            found = self._kept[its] = Kept()
        return found

    def is_checked(self, state: PartitionState) -> bool:
        """Whether records of a partition may not be lost."""
        topic_id = state.topic_id
        return not (
            topic_id in self.unclean
            or topic_id in self.doomed
            or (topic_id, state.partition) in self._split
        )

    def is_whole(self, topic_id: bytes | None, partition: int) -> bool:
        """Whether all replicas of a partition have the same records in the end."""
        return (topic_id, partition) not in self._split

    def joining(self, partition: Partition, replica: int, losses: int) -> None:
        """A leader wants a follower in sync, for a Fetch of then."""
        state = partition.state
        its = (state.topic_id, state.partition), state.leader_epoch, replica
        self._joining[its] = losses

    def isr_written(self, state: PartitionState, before: tuple[int, ...]) -> None:
        """The in-sync set is another one."""
        if not self.is_checked(state):
            return
        its = state.topic_id, state.partition
        for gone in set(before) - set(state.isr):
            self._forgiven.pop((its, gone), None)
        for joined in set(state.isr) - set(before):
            losses = self._joining.get((its, state.leader_epoch, joined))
            if losses is not None and losses != self._brokers[joined].disks.loss_count:
                self._forgive(its, joined)
        self._check_members(state)

    def lost(
        self, broker_id: int, key: TopicPartition, topic_id: bytes, *, with_machine: bool
    ) -> None:
        """A disk has lost something of a replica; with a whole machine its broker suspects it."""
        its = topic_id, key[1]
        self._lossy.add((its, broker_id))
        found = self._store.states.get(key)
        if found is None or self._store.topics[key[0]].topic_id != topic_id:
            return
        if broker_id in found.isr:
            self._forgive(its, broker_id)
        if broker_id == found.leader and self._led_by.get((its, broker_id)) == found.leader_epoch:
            self._led[its] = found.leader_epoch
            (self._suspect.add if with_machine else self._suspect.discard)(its)

    def _forgive(self, its: Id, broker_id: int) -> None:
        self._forgiven[its, broker_id] = Forgiven(self._world.time_ms)

    def _check_members(self, state: PartitionState) -> None:
        """Everybody who may be elected has everything."""
        its = state.topic_id, state.partition
        kept = self._kept.get(its)
        if kept is None or not kept.data:
            return
        replicas = self._store.topics[state.topic].partitions[state.partition].replicas
        for broker_id in state.isr:
            if broker_id not in replicas:  # nobody elects it
                continue
            raw = self._brokers[broker_id].log_bytes(state)
            has_all = raw is not None and raw.startswith(kept.data)
            forgiven = self._forgiven.get((its, broker_id))
            if forgiven is None:
                assert has_all, (
                    f"broker {broker_id} is in sync and lacks what is committed: {state} "
                    f"has {len(raw or b'')} of {len(kept.data)} bytes, {kept.marks[-3:]}"
                )
            elif (
                raw is not None
                and has_all
                and self._world.time_ms > forgiven.since_ms + STALE_MS
                and not self._is_overrated(state, broker_id, raw)
            ):
                del self._forgiven[its, broker_id]

    def _is_overrated(self, state: PartitionState, broker_id: int, raw: bytes) -> bool:
        """Whether a leader remembers that a member with this log had more.

        Until the member fetches again the leader may commit all of that, in Kafka as here.
        """
        for leader in self._brokers.values():
            partition = leader.replicas.partitions.get(state.key) if leader.is_up else None
            if partition is None or partition.state.topic_id != state.topic_id:
                continue
            follower = partition.followers.get(broker_id)
            if follower is not None:
                led = leader.log_bytes(state) or b""
                ends = [p for _, end, p in batches(led, 0) if end <= follower.log_end_offset]
                if ends and not raw.startswith(led[: ends[-1]]):
                    return True
        return False

    # What leaders and followers do.

    def role_taken(self, partition: Partition) -> None:
        """A broker leads or follows as it was told."""
        state = partition.state
        its = state.topic_id, state.partition
        if not partition.is_leader:
            return
        if self._led.get(its) == state.leader_epoch:
            # No epoch tells its records from those that it had before.
            live = self._brokers[partition.node_id].metadata.brokers
            others = [other for other in state.isr if other in live and other != partition.node_id]
            is_due = others and its in self._suspect and state.topic_id not in self.doomed
            assert not is_due, f"{state} is led twice beside {others}"
            self._suspect.discard(its)  # from here on it need not know
            self._split.add(its)
            self.holes += 1
        self._led_by[its, partition.node_id] = state.leader_epoch
        if not self.is_checked(state):
            return
        kept = self.kept(state)
        raw = self._brokers[partition.node_id].log_bytes(state) or b""
        if not raw.startswith(kept.data[: kept.due(state.leader_epoch)]):
            stored = self._store.states.get(state.key)
            assert stored is None or stored.leader_epoch >= state.leader_epoch
            assert (its, partition.node_id) in self._forgiven, (
                f"broker {partition.node_id} leads without what is committed: {state}, "
                f"{len(raw)} of {len(kept.data)} bytes, {kept.marks[-3:]}"
            )
            assert self.may_lose, f"every record was synced before it was committed: {state}"
            kept.lose(raw)
            self.holes += 1
            if len(state.replicas) == 1:
                self._split.add(its)  # what comes after a gap is worth more than nothing
            self._hole_epochs[its] = state.leader_epoch

    def committed(self, partition: Partition) -> None:
        """The high watermark of a leader may have moved: what lies below it stays for ever."""
        state = partition.state
        its = state.topic_id, state.partition
        if not self.is_checked(state) or state.leader_epoch < self._hole_epochs.get(its, 0):
            return
        kept = self.kept(state)
        high_watermark = partition.log.high_watermark
        if high_watermark <= kept.offset_end:
            return
        raw = self._brokers[partition.node_id].log_bytes(state) or b""
        assert raw.startswith(kept.data), f"a leader commits other records: {state}"
        kept.add(raw, high_watermark, state.leader_epoch)
        assert partition.log.last_stable_offset == kept.stable_offset
        stored = self._store.states.get(state.key)
        if stored is not None and self._store.topics[state.topic].topic_id == state.topic_id:
            self._check_members(state._replace(isr=stored.isr))

    def replica(self, partition: Partition) -> None:
        """A follower has fetched: up to its high watermark it has what the others have."""
        state = partition.state
        its = state.topic_id, state.partition
        if not self.is_checked(state) or state.leader_epoch < self._hole_epochs.get(its, 0):
            return
        kept, kept_log = self.kept(state), partition.log
        high_watermark = kept_log.high_watermark
        assert high_watermark <= kept_log.log_end_offset
        if (its, partition.node_id) in self._forgiven or not high_watermark:
            return
        if kept_log.epochs.latest < self._hole_epochs.get(its, 0):
            return  # it has not heard of the loss
        position = kept.position_of.get(high_watermark)
        assert position is not None, (
            f"broker {partition.node_id} believes in {high_watermark}, committed is "
            f"{kept.offset_end}: {state}"
        )
        raw = self._brokers[partition.node_id].log_bytes(state) or b""
        assert raw[:position] == kept.data[:position], (
            f"the log of broker {partition.node_id} differs below {high_watermark}: {state}"
        )
        assert high_watermark < kept.offset_end or kept_log.last_stable_offset == kept.stable_offset

    def acknowledged(self, partition: Partition, offset_end: int, min_isr: int) -> None:
        """A client hears that acks=all was fulfilled.

        A broker that a reassignment has given up may have deleted what it had before the leader
        knows.
        """
        state = partition.state
        its = state.topic_id, state.partition
        if not self.is_checked(state) or state.leader_epoch < self._hole_epochs.get(its, 0):
            return
        kept = self.kept(state)
        assert kept.offset_end >= offset_end, f"{offset_end} is answered and not committed: {state}"
        data = kept.data[: kept.position_of[offset_end]]
        replicas = self._store.topics[state.topic].partitions[state.partition].replicas
        holders = [
            broker_id
            for broker_id in state.replicas
            if (its, broker_id) in self._lossy
            or broker_id not in replicas
            or (self._brokers[broker_id].log_bytes(state) or b"").startswith(data)
        ]
        assert len(holders) >= min_isr, f"only {holders} hold what was to be at {min_isr}: {state}"

    def was_read(self, state: PartitionState, offset: int, data: bytes) -> None:
        """A consumer has read this."""
        its = state.topic_id, state.partition
        if not self.is_checked(state) or state.leader_epoch < self._hole_epochs.get(its, 0):
            return
        kept = self.kept(state)
        position = kept.position_of.get(offset)
        if position is None:
            assert its in self._hole_epochs, f"{offset} is no offset of a batch: {state}"
        else:
            assert kept.data[position : position + len(data)] == data, (
                f"what was read at {offset} is not what is committed: {state}"
            )

    def may_shrink(self, state: PartitionState, offset: int) -> None:
        """A consumer that was at an offset hears that the log ends before."""
        its = state.topic_id, state.partition
        assert not self.is_checked(state) or its in self._hole_epochs, (
            f"what was read before {offset} is gone: {state}"
        )


def is_of(metadata: bytes | None, topic_id: bytes) -> bool:
    """Whether a partition.metadata says that a log is this topic's, or nothing legible."""
    if not metadata or _expected(topic_id) == metadata:
        return True
    try:
        return parse_partition_metadata(metadata) == topic_id
    except ValueError:
        return True


@functools.cache
def _expected(topic_id: bytes) -> bytes:
    return render_partition_metadata(topic_id)
