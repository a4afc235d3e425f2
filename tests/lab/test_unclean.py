"""What is lost when: unclean elections off, on and by topic; acks=0 and 1 when a leader dies.

Odradek's brokers; in the soak Apache Kafka's too, which must lose the same.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.storage.directory.suspicion import BOOT_NOTE, BootNote
from tests.support.connections import RawConnection
from tests.support.frames import request_bytes
from tests.support.messages import batch_of, fetch_request, produce_request, records_in
from tests.support.waiting import NotYet, until

from . import admin
from .asking import ask, metadata
from .brokers import KafkaBroker
from .cluster import PATIENT, Cluster

pytestmark = [pytest.mark.wire, pytest.mark.java, pytest.mark.timeout(300)]

PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 11
NOT_YET: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
ON_ITS_WAY: Final = b"acks=1, perhaps on its way"
UNCLEAN: Final = "unclean.leader.election.enable"
KINDS: Final = ("odradek", pytest.param("kafka", marks=pytest.mark.soak))


@pytest.fixture(params=KINDS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    settings = {
        **PATIENT,  # who stands still is in sync meanwhile
        "min.insync.replicas": "1",
        "log.retention.ms": "-1",  # the batches are old
    }
    with Cluster(request.param, (0, 1), directory=tmp_path, settings=settings) as cluster:
        cluster.start_zookeeper()
        cluster.start()
        yield cluster


def isr(lab: Cluster, topic: str) -> list[int]:
    return sorted(lab.state(topic).get("isr", []))


def create(lab: Cluster, *topics: str, **configs: str) -> None:
    for topic in topics:
        admin.create_topic(lab, topic, assignment=[[0, 1]], configs=configs)
        until(lambda topic=topic: isr(lab, topic) == [0, 1], f"{topic} is made")  # type: ignore[misc]


def produce(
    lab: Cluster,
    broker: int,
    topic: str,
    values: Sequence[bytes],
    *,
    acks: int = -1,
    timeout_ms: int = 500,
) -> ErrorCode:
    """A batch with all values, to a broker; what it says of it."""
    request = produce_request(topic, {0: batch_of(*values)}, acks=acks)
    request.timeout_ms = timeout_ms
    answer = ask(lab.brokers[broker].address, request, PRODUCE_VERSION)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def write(lab: Cluster, broker: int, topic: str, values: Sequence[bytes]) -> None:
    """The same, as soon as it leads, until all have it."""

    def is_written() -> bool:
        code = produce(lab, broker, topic, values, timeout_ms=10_000)
        assert code in (ErrorCode.NONE, *NOT_YET)
        return code == ErrorCode.NONE

    until(is_written, f"{topic} is written")


def send(lab: Cluster, broker: int, topic: str, values: Sequence[bytes]) -> None:
    """With acks=0, and wait until the broker has taken it: what is behind it is answered."""
    frames = [
        request_bytes(produce_request(topic, {0: batch_of(*values)}, acks=0), PRODUCE_VERSION),
        request_bytes(fetch_request(topic), FETCH_VERSION),
    ]
    with RawConnection(*lab.brokers[broker].address, timeout_s=10) as connection:
        for frame in frames:
            connection.send_frame(frame)
        assert connection.read_frame()


def check(lab: Cluster, topic: str, expected: Sequence[bytes], *, perhaps: bytes = b"") -> None:
    """A consumer gets these records and no others, as soon as they are committed."""
    found: list[Any] = []

    def is_there() -> bool:
        who = lab.leader(topic)
        if who < 0:
            return False
        try:
            answer = ask(lab.brokers[who].address, fetch_request(topic), FETCH_VERSION)
        except OSError:  # it is about to stop, or is dead already
            return False
        records = records_in(answer.responses[0].partitions[0].records)
        found[:] = [value for _, value in records if value != perhaps]
        return found == list(expected)

    try:
        until(is_there, f"{topic} holds what it should", 20)
    except NotYet:
        assert (topic, found) == (topic, list(expected))
        raise


def test_unclean_elections(lab: Cluster) -> None:
    topics = ("off", "on", "later", "by-broker")
    create(lab, "off", **{UNCLEAN: "false"})
    create(lab, "on", **{UNCLEAN: "true"})
    create(lab, "later", "by-broker")
    for topic in topics:
        write(lab, 0, topic, [b"both"])
    lab.kill(1, expire=True, successor=0)
    for topic in topics:
        until(lambda topic=topic: isr(lab, topic) == [0], "broker 1 is out of sync")  # type: ignore[misc]
        write(lab, 0, topic, [b"first only"])
    lab.kill(0, expire=True)
    lab.start(1)

    until(
        lambda: [lab.leader(topic) for topic in topics] == [-1, 1, -1, -1],
        "an unclean leader is elected, where that is allowed",
    )
    knows = lab.brokers[1].address
    until(lambda: {*topics} <= metadata(knows)["topics"].keys(), "broker 1 knows them again")
    admin.alter_configs(lab, admin.TOPIC, "later", put={UNCLEAN: "true"}, broker=1)
    until(lambda: lab.leader("later") == 1, "the topic allows it by now")
    assert [lab.leader(topic) for topic in topics] == [-1, 1, 1, -1]
    admin.alter_configs(lab, admin.BROKER, "", put={UNCLEAN: "true"}, broker=1)
    until(lambda: lab.leader("by-broker") == 1, "all allow it by now")
    assert [lab.leader(topic) for topic in topics] == [-1, 1, 1, 1]
    for topic in topics[1:]:
        write(lab, 1, topic, [b"second only"])
    if lab.kind == "odradek":
        said = "leader elected that is not in sync, records may be lost topic=on partition=0"
        assert said in lab.brokers[1].output

    lab.start(0)
    until(lambda: all(isr(lab, topic) == [0, 1] for topic in topics), "all are in sync")
    assert lab.leader("off") == 0
    check(lab, "off", [b"both", b"first only"])
    for topic in topics[1:]:
        check(lab, topic, [b"both", b"second only"])
    elect_first(lab, topics)  # its copy was cut, too
    for topic in topics[1:]:
        check(lab, topic, [b"both", b"second only"])


def elect_first(lab: Cluster, topics: Sequence[str]) -> None:
    """Let broker 0 lead."""
    admin.elect_preferred(lab, {topic: [0] for topic in topics if lab.leader(topic) != 0})
    until(lambda: {lab.leader(topic) for topic in topics} == {0}, "broker 0 leads")


def test_only_what_was_not_replicated_is_lost(lab: Cluster) -> None:
    create(lab, "t")
    write(lab, 0, "t", [b"acks=all"])
    assert produce(lab, 0, "t", [b"acks=1, replicated"], acks=1) == ErrorCode.NONE
    until(lambda: end(lab, 1, "t") == 2, "broker 1 has it")
    lab.pause(1)
    try:
        # Broker 1 has asked already: this may be its answer, and reach it after all.
        assert produce(lab, 0, "t", [ON_ITS_WAY], acks=1) == ErrorCode.NONE
        alone: list[Callable[[], object]] = [
            lambda: produce(lab, 0, "t", [b"acks=1"], acks=1),
            lambda: send(lab, 0, "t", [b"acks=0"]),
            lambda: produce(lab, 0, "t", [b"acks=all, alone"]),
        ]
        told = [write_it() for write_it in alone]
        assert isr(lab, "t") == [0, 1]
        lab.kill(0)
    finally:
        lab.resume(1)
    # Who has heard that it is kept by all has lost nothing; with acks=1 somebody has.
    assert told == [ErrorCode.NONE, None, ErrorCode.REQUEST_TIMED_OUT]
    until(lambda: lab.leader("t") == 1, "broker 1 leads")
    write(lab, 1, "t", [b"later"])
    kept = [b"acks=all", b"acks=1, replicated", b"later"]
    check(lab, "t", kept, perhaps=ON_ITS_WAY)
    lab.start(0)
    until(lambda: isr(lab, "t") == [0, 1], "broker 0 is in sync")
    elect_first(lab, ["t"])
    check(lab, "t", kept, perhaps=ON_ITS_WAY)


def end(lab: Cluster, broker: int, topic: str) -> int:
    """How many batches of one record a replica's log has, by its files."""
    path = lab.brokers[broker].data_dir / f"{topic}-0" / f"{0:020d}.log"
    return sum(1 for _ in records_in(path.read_bytes()))


def test_a_suspect_replica_with_a_controller_of_kafka(tmp_path: Path) -> None:
    """It is left without a leader there, too; and Kafka serves what lies beside our note."""
    settings = {
        **PATIENT,
        "odradek.unclean.last.replica": "wait",
        "odradek.controller.candidate": "false",
        "log.retention.ms": "-1",
    }
    with Cluster("odradek", (0, 1, 2), directory=tmp_path, settings=settings) as lab:
        kafka = lab.brokers[2].settings
        lab.brokers[2] = KafkaBroker(2, lab.brokers[2].directory, kafka)
        lab.start_zookeeper()
        lab.start(2, 0, 1)
        until(lambda: lab.controller() == 2, "Kafka controls")
        create(lab, "t")
        write(lab, 0, "t", [b"both"])
        lab.kill(1, expire=True)
        until(lambda: isr(lab, "t") == [0], "broker 1 is out of sync")
        write(lab, 0, "t", [b"first only"])
        lab.kill(0, expire=True)
        note = lab.brokers[0].data_dir / BOOT_NOTE
        note.write_bytes(BootNote("another").render())

        lab.start(0)
        until(lambda: "suspect replica does not lead" in lab.brokers[0].output, "it declines")
        lab.start(1)
        until(lambda: 2 in lab.live() and 1 in lab.live(), "broker 1 is there")
        until(lambda: offline(lab, "t"), "the controller takes it for offline")
        assert (lab.leader("t"), isr(lab, "t")) == (-1, [0])

        lab.stop(0)
        lab.brokers[0].settings["odradek.unclean.last.replica"] = "lead"
        lab.start(0)
        until(lambda: lab.leader("t") == 0, "it leads where that is wanted")
        check(lab, "t", [b"both", b"first only"])
        until(lambda: isr(lab, "t") == [0, 1], "broker 1 follows")

        lab.stop(0)
        assert note.exists()
        lab.brokers[0] = KafkaBroker(0, lab.brokers[0].directory, kafka)
        lab.start(0)
        until(lambda: isr(lab, "t") == [0, 1], "Kafka follows")
        elect_first(lab, ["t"])
        check(lab, "t", [b"both", b"first only"])
        assert note.exists()


def offline(lab: Cluster, topic: str) -> list[int]:
    """Replicas that are offline, as broker 1 was told."""
    found = metadata(lab.brokers[1].address)["topics"].get(topic)
    return list(found["0"]["offline"]) if found else []
