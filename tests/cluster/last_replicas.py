"""Replicas that differ, and machines that die: what the tests of last replicas do to a cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from odradek.cli import main
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import ProduceRequest
from odradek.protocol.records import iter_batches
from odradek.storage.directory.suspicion import BOOT_NOTE, BootNote
from tests.cli.conftest import PATIENTLY
from tests.lab.asking import ask
from tests.support.messages import batch_of, fetch_request, produce_request, records_in
from tests.support.waiting import NotYet, until

from .clusters import Cluster, Embedded, ZooKeeper

SEGMENT: Final = "00000000000000000000.log"
PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 11
# Who leads stands in the store before the leader hears of it.
NOT_TOLD: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
DECLINED: Final = "suspect replica does not lead"
LED: Final = "suspect replica leads"


def data_dir(cluster: Cluster, broker: int) -> Path:
    """Where a broker's logs lie."""
    if isinstance(cluster, ZooKeeper):
        return cluster.lab.brokers[broker].data_dir
    assert isinstance(cluster, Embedded)
    return cluster.data_dir / f"broker-{broker}"


def write(cluster: Cluster, topic: str, partition: int, values: Sequence[bytes]) -> None:
    """Append records, a batch each, to whoever leads; all are acknowledged."""
    for value in values:
        request = produce_request(topic, {partition: batch_of(value)})

        def is_written(request: ProduceRequest = request) -> bool:
            leader = until(lambda: cluster.leader(topic, partition) + 1, "somebody leads") - 1
            answer = ask(cluster.addresses[leader], request, PRODUCE_VERSION)
            code = answer.responses[0].partition_responses[0].error_code
            assert code in (ErrorCode.NONE, *NOT_TOLD), ErrorCode(code)
            return bool(code == ErrorCode.NONE)

        until(is_written, "who leads has been told so")


def check(cluster: Cluster, topic: str, partition: int, expected: Sequence[bytes]) -> None:
    """A consumer gets these records and no others, as soon as the leader knows who is in sync."""
    request = fetch_request(topic, partition=partition)
    found: list[object] = []

    def is_there() -> bool:
        leader = cluster.leader(topic, partition)
        if leader < 0:
            return False
        data = ask(cluster.addresses[leader], request, FETCH_VERSION).responses[0].partitions[0]
        found[:] = [ErrorCode(data.error_code), [value for _, value in records_in(data.records)]]
        return found == [ErrorCode.NONE, list(expected)]

    try:
        until(is_there, "the records are there")
    except NotYet:
        assert found == [ErrorCode.NONE, list(expected)]
        raise


def segment(cluster: Cluster, broker: int, topic: str, partition: int) -> Path:
    """The only one of a log."""
    return data_dir(cluster, broker) / f"{topic}-{partition}" / SEGMENT


def log_end(cluster: Cluster, broker: int, topic: str, partition: int) -> int:
    """Where a replica ends, whoever leads: as the disk has it."""
    data = segment(cluster, broker, topic, partition).read_bytes()
    ends = [header.next_offset for _, header in iter_batches(memoryview(data))]
    return ends[-1] if ends else 0


def cut(cluster: Cluster, broker: int, topic: str, partition: int, offset: int) -> None:
    """Take the end of a log away, from a batch on; nobody has it open."""
    path = segment(cluster, broker, topic, partition)
    data = path.read_bytes()
    starts = [at for at, header in iter_batches(memoryview(data)) if header.base_offset == offset]
    with path.open("r+b") as file:
        file.truncate(starts[0])


def start_machine_anew(cluster: Cluster, broker: int) -> None:
    """As if the machine of a broker that is down had been started since."""
    path = data_dir(cluster, broker) / BOOT_NOTE
    note = BootNote.parse(path.read_bytes())
    assert note.boot_id is not None
    path.write_bytes(note._replace(boot_id="another").render())


def suspects(cluster: Cluster, broker: int) -> set[tuple[str, int]]:
    """Which replicas the note on a broker's disk names."""
    return set(BootNote.parse((data_dir(cluster, broker) / BOOT_NOTE).read_bytes()).suspects)


def accept_loss(cluster: Cluster, topic: str, partition: int) -> str:
    """What `odradek elect-leaders` says."""
    asked = ("--accept-loss", "--topic", f"{topic}:{partition}", "-b", cluster.bootstrap_servers)
    done = CliRunner().invoke(main, ["elect-leaders", *asked, *PATIENTLY])
    assert done.exit_code == 0, (done.output, cluster.log())
    return done.output


def isr(cluster: Cluster, topic: str, partition: int) -> set[int]:
    """As the cluster knows it."""
    return set(cluster.partitions()[0][topic, partition].isr)


def shrink_to_none(cluster: Cluster, topics: dict[str, int]) -> None:
    """Write, and kill a broker at a time (2, 1, 0): in the end 0 has 30 records, 1 has 20, 2 ten.

    `topics`: of each the number of partitions, whose replicas are 0, 1 and 2.
    """
    everybody = {0, 1, 2}
    for round_, victim in enumerate((2, 1, 0)):
        values = [b"%d" % n for n in range(10 * round_, 10 * round_ + 10)]
        keys = [(topic, p) for topic, count in topics.items() for p in range(count)]
        for key in keys:
            write(cluster, *key, values)
        cluster.kill(victim, expire=True)
        everybody.discard(victim)
        if everybody:
            until(lambda: all(isr(cluster, *key) == everybody for key in keys), "ISRs have shrunk")  # noqa: B023


def start(cluster: Cluster, broker: int) -> None:
    """Start one that is down; it need not come into sync with anybody."""
    if isinstance(cluster, Embedded):
        cluster.start_alone(broker)
    else:
        cluster.start(broker)
