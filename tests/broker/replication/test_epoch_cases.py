"""What leader epochs are for (KIP-101, KIP-279): logs do not part, and nothing committed is cut.

The cases of Kafka's EpochDrivenReplicationProtocolAcceptanceTest, with two or three replicas that
have real logs. Whoever "dies" is loaded anew from its directory, with the high watermark that was
checkpointed last.
"""

from pathlib import Path
from typing import Final

from odradek.broker.config import Config
from odradek.broker.core.fetch_reads import read_all
from odradek.broker.core.fetch_session import PartitionFetch
from odradek.broker.core.followers import FetchingReplica
from odradek.broker.core.partition import Partition
from odradek.broker.core.partition_state import PartitionState
from odradek.broker.core.truncation import truncation_offset
from odradek.protocol.records import Codec, read_header
from odradek.storage.log.log import Log
from odradek.storage.recovery.load import LoadHints
from tests.storage.support import WALL_MS, batch_of, new_log, reload

TOPIC_ID: Final = bytes(range(16))
BYTES_MAX: Final = 1 << 20
CONFIG: Final = Config({"log.segment.bytes": "1000", "log.index.interval.bytes": "100"})


class Cluster:
    """Replicas of one partition, each led or following as the test says."""

    def __init__(self, path: Path, replicas: int = 2) -> None:
        self._ids = tuple(range(replicas))
        self._logs: dict[int, Log] = {}
        self._high_watermarks = dict.fromkeys(self._ids, 0)
        self._epoch = -1
        self.partitions: dict[int, Partition] = {}
        for broker_id in self._ids:
            directory = path / str(broker_id)
            directory.mkdir()
            self._logs[broker_id] = new_log(directory, CONFIG.topic_config().log_config)

    def close(self) -> None:
        """Give the files back."""
        for log in self._logs.values():
            log.abandon()

    def elect(self, leader: int, isr: tuple[int, ...]) -> Partition:
        """A leader epoch begins; all in it hear of that, in this order."""
        self._epoch += 1
        state = PartitionState(
            "t", TOPIC_ID, 0, leader, self._epoch, isr, self._ids, self._epoch, 1
        )
        for broker_id in isr:
            self.hear(broker_id, state)
        return self.partitions[leader]

    def hear(self, broker_id: int, state: PartitionState) -> None:
        """One broker takes its role."""
        known = self.partitions.get(broker_id)
        if known is not None:
            known.become(state, 0)
            return
        self.partitions[broker_id] = Partition(
            self._logs[broker_id],
            CONFIG.topic_config(),
            state,
            broker_id,
            lambda partition: None,
            now_ms=0,
        )

    def join(self, broker_id: int, leader: Partition) -> None:
        """A broker is back and follows."""
        self.hear(broker_id, leader.state._replace(isr=(*leader.state.isr, broker_id)))

    def die(self, broker_id: int, *, checkpoints: bool = True) -> None:
        """Be loaded anew; the high watermark is known as far as it was checkpointed."""
        partition = self.partitions.pop(broker_id)
        if checkpoints:
            self._high_watermarks[broker_id] = partition.log.high_watermark
        partition.log.abandon()
        hints = LoadHints(clean=False, high_watermark=self._high_watermarks[broker_id])
        self._logs[broker_id] = reload(partition.log, hints)

    def fetch(self, follower: int, leader: int) -> None:
        """One round: append, or cut where the logs part."""
        own, other = self.partitions[follower], self.partitions[leader]
        log = own.log
        asked = PartitionFetch(
            ("t", 0), log.log_end_offset, BYTES_MAX, own.state.leader_epoch, log.epochs.latest, 0
        )
        by = FetchingReplica(follower, is_alive=True, now_ms=0, lag_max_ms=1000)
        read = read_all([asked], lambda fetch: other, BYTES_MAX, replica=by)[0]
        assert not read.error, read.error
        if read.diverging_epoch is not None:
            log.truncate(truncation_offset(log, *read.diverging_epoch))
            return
        if read.span is not None:
            own.append_fetched(memoryview(bytearray(read.span.read())), wall_ms=WALL_MS)
            read.span.release()
        own.take_offsets(read.high_watermark, 0)

    def catch_up(self, follower: int, leader: int) -> None:
        """Follow until both have the same, and both know it."""
        for _ in range(20):
            self.fetch(follower, leader)
        own, other = self.partitions[follower].log, self.partitions[leader].log
        assert own.log_end_offset == other.log_end_offset
        assert own.high_watermark == other.high_watermark


def write(leader: Partition, *values: str, codec: int = Codec.NONE) -> None:
    """Append one batch."""
    batch = batch_of([value.encode() for value in values], codec=codec)
    leader.append(batch, read_header(batch), wall_ms=WALL_MS)


def stored(partition: Partition) -> bytes:
    """All bytes of a replica."""
    return b"".join(segment.file.pread(segment.size_bytes, 0) for segment in partition.log.segments)


def test_each_leadership_leaves_its_epoch_in_all_logs(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    leader = cluster.elect(0, (0, 1))
    write(leader, "a")
    cluster.catch_up(1, 0)
    assert cluster.partitions[1].log.epochs.entries() == [(0, 0)]
    cluster.die(1)
    leader = cluster.elect(0, (0,))
    cluster.join(1, leader)
    write(leader, "b")
    cluster.catch_up(1, 0)
    cluster.die(0)
    leader = cluster.elect(1, (1,))
    cluster.join(0, leader)
    write(leader, "c")
    cluster.catch_up(0, 1)
    for partition in cluster.partitions.values():
        assert partition.log.epochs.entries() == [(0, 0), (1, 1), (2, 2)]
    assert stored(cluster.partitions[0]) == stored(cluster.partitions[1])
    cluster.close()


def test_logs_that_part_are_made_equal(tmp_path: Path) -> None:
    """Each writes what the other has not, at the same offsets."""
    cluster = Cluster(tmp_path)
    leader = cluster.elect(0, (0, 1))
    for number in range(10):
        write(leader, f"both {number}")
    cluster.catch_up(1, 0)
    cluster.die(1)
    for number in range(3):
        write(leader, f"only the first {number}")
    cluster.die(0)
    leader = cluster.elect(1, (1,))
    for number in range(7):
        write(leader, f"only the second {number}")
    cluster.join(0, leader)
    cluster.catch_up(0, 1)
    assert cluster.partitions[0].log.log_end_offset == 17
    assert stored(cluster.partitions[0]) == stored(cluster.partitions[1])
    cluster.close()


def test_offsets_do_not_go_back(tmp_path: Path) -> None:
    """A follower that has all, and is elected before it knows that all is committed, cuts none."""
    cluster = Cluster(tmp_path)
    leader = cluster.elect(0, (0, 1))
    for number in range(10):
        write(leader, *(f"{number} {i}" for i in range(10)), codec=Codec.GZIP)
    cluster.catch_up(1, 0)
    assert leader.log.high_watermark == 100
    committed = stored(leader)
    cluster.die(1, checkpoints=False)
    assert cluster.elect(0, (0, 1)).log.high_watermark == 100
    assert cluster.partitions[1].log.high_watermark == 0
    cluster.die(0)
    leader = cluster.elect(1, (1,))
    assert stored(leader) == committed, "before leader epochs it was cut to its high watermark"
    write(leader, "more")
    cluster.join(0, leader)
    cluster.catch_up(0, 1)
    assert stored(cluster.partitions[0]) == stored(leader)
    assert leader.log.log_end_offset == 101
    cluster.close()


def test_fast_changes_of_the_leader_are_survived(tmp_path: Path) -> None:
    """Leaders with a record each and, between them, one with none (KIP-279)."""
    cluster = Cluster(tmp_path)
    leader = cluster.elect(0, (0, 1))
    write(leader, "begin")
    cluster.catch_up(1, 0)
    for number in range(5):
        first, second = number % 2, 1 - number % 2
        leader = cluster.elect(first, (first, second))
        write(leader, f"epoch {leader.state.leader_epoch}")  # the other one does not get it
        cluster.die(first)
        leader = cluster.elect(second, (second,))
        assert leader.log.epochs.latest == leader.state.leader_epoch, "without a record as well"
        leader = cluster.elect(second, (second,))
        write(leader, f"epoch {leader.state.leader_epoch}")
        cluster.join(first, leader)
        cluster.catch_up(first, second)
        assert stored(cluster.partitions[0]) == stored(cluster.partitions[1])
    entries = [partition.log.epochs.entries() for partition in cluster.partitions.values()]
    assert entries[0] == entries[1]
    assert [start for _, start in entries[0]] == [0, 1, 2, 3, 4, 5]
    cluster.close()


def test_logs_do_not_part_when_leaders_are_elected_out_of_sync(tmp_path: Path) -> None:
    """What was acknowledged is lost then, but all have the same in the end."""
    cluster = Cluster(tmp_path)
    leader = cluster.elect(0, (0, 1))
    write(leader, "both")
    cluster.catch_up(1, 0)
    for number in range(6):
        leads, rests = number % 2, 1 - number % 2
        if rests in cluster.partitions:
            cluster.die(rests)
        if leads in cluster.partitions:
            cluster.die(leads)
        leader = cluster.elect(leads, (leads,))
        for record in range(number + 1):
            write(leader, f"{leads} alone {number} {record}")
    final = 1
    cluster.join(0, leader)
    cluster.catch_up(0, final)
    assert stored(cluster.partitions[0]) == stored(cluster.partitions[1])
    entries = [partition.log.epochs.entries() for partition in cluster.partitions.values()]
    assert entries[0] == entries[1]
    cluster.close()
