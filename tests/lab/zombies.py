"""Brokers that stand still for longer than their session, and wake in an office no longer theirs.

A *probe* is a request that reaches such a broker while it stands still: it is the first thing the
broker finds when it wakes, before anybody can tell it that others have taken over.
"""

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from odradek.protocol.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.schema import Message
from tests.support.connections import RawConnection
from tests.support.frames import answer_in, request_bytes, response_class
from tests.support.messages import batch_of
from tests.support.waiting import until

from .admin import create_topic
from .asking import Address, ask, codes_in
from .cluster import Cluster
from .cuts import GO_ON_WITHIN_S, LEADER, Load, look, put_in_order
from .standstill import Standstill

PROBED: Final = "probed"
GROUP: Final = "zombie"
OFFSETS: Final = "__consumer_offsets"
# One coordinator for all groups, and others that can take over.
SETTINGS: Final = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3"}
CONTROLLER: Final = 1
PROBE_TIMEOUT_S: Final = 20.0
TAKEN_WITHIN_S: Final = 6.5
LONGER_S: Final = 1.0
PRODUCE_VERSION: Final = 9
COMMIT_VERSION: Final = 7
CREATE_VERSION: Final = 7
FIND_VERSION: Final = 2
PRODUCE_TIMEOUT_S: Final = 5.0


class Probe:
    """A request on a connection that was there before."""

    def __init__(self, address: Address) -> None:
        self._connection = RawConnection(*address, timeout_s=PROBE_TIMEOUT_S)
        self._request: type[Message] | None = None

    def send(self, request: Message, version: int) -> None:
        self._connection.send_frame(request_bytes(request, version, client_id="probe"))
        self._request, self._version = type(request), version

    def answer(self) -> list[str]:
        """The names of the errors in the answer; none: it was done.  Raises: TimeoutError."""
        assert self._request is not None
        try:
            with self._connection as connection:
                frame = connection.read_frame()
        except ConnectionError:
            return ["closed"]
        answer = answer_in(frame, response_class(self._request), self._version)
        return [code.name for code, _ in codes_in(answer)]


class Office(NamedTuple):
    """What a broker does for the others, and believes it still does when it wakes."""

    name: str
    holder: Callable[[Cluster], int]
    request: Callable[[int], tuple[Message, int]]
    """The probe of a round, with its version."""
    meanwhile: Callable[[Cluster, int], None] = lambda lab, number: None
    """What is done while another has the office."""
    afterwards: Callable[[Cluster, int], list[str]] = lambda lab, number: []
    """What is wrong in the end."""


class Round(NamedTuple):
    """One that stood still: for how long, after what time others took over, what it said."""

    office: str
    taken_s: float
    """Without the machine's stops."""
    stood_still_s: float
    said: list[str]
    wrong: list[str]


def make_topics(lab: Cluster) -> None:
    """What probes need: a partition that its leader could acknowledge alone, and a coordinator."""
    create_topic(lab, PROBED, assignment=[[0, 1, 2]], configs={"min.insync.replicas": "1"})
    until(lambda: _is_found(lab), "there is a coordinator")
    commit(lab, 0)


def commit(lab: Cluster, offset: int) -> None:
    """Have the coordinator take an offset.  Raises: NotYet."""
    until(lambda: not _errors(lab, _commit(offset), COMMIT_VERSION), f"offset {offset} is taken")


def committed(lab: Cluster) -> int:
    """The offset that the coordinator has.  Raises: NotYet."""
    partitions = OffsetFetchRequestTopic(name=PROBED, partition_indexes=[0])
    request = OffsetFetchRequest(group_id=GROUP, topics=[partitions])

    def read() -> list[int]:
        answer = _ask_coordinator(lab, request, COMMIT_VERSION)
        if answer is None or codes_in(answer):
            return []
        return [p.committed_offset for topic in answer.topics for p in topic.partitions]

    (offset,) = until(read, "the coordinator tells an offset")
    return offset


def _is_found(lab: Cluster) -> bool:
    """Asking for a coordinator makes the topic of the groups, if it is not there."""
    request = FindCoordinatorRequest(key=GROUP)
    return not codes_in(ask(lab.brokers[LEADER].address, request, FIND_VERSION))


def _errors(lab: Cluster, request: Message, version: int) -> bool:
    answer = _ask_coordinator(lab, request, version)
    return answer is None or bool(codes_in(answer))


def _ask_coordinator(lab: Cluster, request: Message, version: int) -> Any:
    coordinator = lab.leader(OFFSETS)
    if coordinator < 0:
        return None
    try:
        return ask(lab.brokers[coordinator].address, request, version)
    except OSError:
        return None


def _produce(number: int) -> tuple[Message, int]:
    batch = PartitionProduceData(index=0, records=batch_of(f"stale {number}".encode()))
    topic = TopicProduceData(name=PROBED, partition_data=[batch])
    timeout_ms = int(PRODUCE_TIMEOUT_S * 1000)
    return ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[topic]), PRODUCE_VERSION


def _commit(offset: int) -> Message:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name=PROBED, partitions=[partition])
    return OffsetCommitRequest(group_id=GROUP, member_id="", topics=[topic])


def _stale(number: int) -> int:
    """The offset that the stale coordinator is sent."""
    return 2 * number + 1


def _good(number: int) -> int:
    """The offset that the new one is sent."""
    return 2 * number + 2


def _is_kept(lab: Cluster, number: int) -> list[str]:
    found = committed(lab)
    return [] if found == _good(number) else [f"offset {found} is committed, not {_good(number)}"]


def _make(number: int) -> tuple[Message, int]:
    topic = CreatableTopic(name=f"stale-{number}", num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5000), CREATE_VERSION


LEAD: Final = Office("partition", lambda lab: lab.leader(PROBED), _produce)
CONTROL: Final = Office(
    "cluster", lambda lab: -1 if (found := lab.controller()) is None else found, _make
)
COORDINATE: Final = Office(
    "group",
    lambda lab: lab.leader(OFFSETS),
    lambda number: (_commit(_stale(number)), COMMIT_VERSION),
    lambda lab, number: commit(lab, _good(number)),
    _is_kept,
)
OFFICES: Final = (LEAD, CONTROL, COORDINATE)


def stand_still(lab: Cluster, topic: str, load: Load, office: Office, number: int) -> Round:
    """Stop the holder until others have taken over and gone on, wake it, wait until all is well."""
    put_in_order(lab, topic, CONTROLLER)
    holder = office.holder(lab)
    epoch = look(lab, topic).controller_epoch
    probe = Probe(lab.brokers[holder].address)
    lab.pause(holder)
    paused_s = time.monotonic()
    try:
        with Standstill() as machine:
            stopped_s = machine.own_s()
            probe.send(*office.request(number))
            until(lambda: holder not in lab.live(), f"the session of broker {holder} ends")
            until(lambda: office.holder(lab) not in (holder, -1), f"another has the {office.name}")
            taken_s = machine.own_s() - stopped_s
        lab.history.note("taken over", office.name, broker=office.holder(lab), took_s=taken_s)
        load.wait_for(1, GO_ON_WITHIN_S)
        office.meanwhile(lab, number)
        time.sleep(LONGER_S)
        stood_still_s = time.monotonic() - paused_s
    finally:
        lab.resume(holder)
    said = probe.answer()
    lab.history.note("probe", f"broker {holder}", office=office.name, said=said)
    wrong = [] if said else [f"the stale {office.name} has done what it was asked"]
    if taken_s > TAKEN_WITHIN_S:
        wrong.append(f"{office.name}: taken over after {taken_s:.1f} s")
    if office is CONTROL and look(lab, topic).controller_epoch == epoch:
        wrong.append("no other controller was elected")
    lab.settle()
    load.wait_for(1, GO_ON_WITHIN_S)
    wrong += office.afterwards(lab, number)
    return Round(office.name, round(taken_s, 2), round(stood_still_s, 2), said, wrong)
