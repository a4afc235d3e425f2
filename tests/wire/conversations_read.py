"""What is said about Fetch, ListOffsets and OffsetForLeaderEpoch."""

from collections.abc import Callable
from typing import Any

from odradek.protocol.messages.k01_fetch import FetchRequest, ForgottenTopic
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.messages import fetch_request, produce_request
from tests.wire.talk import TIMESTAMP, Talk, batch, versions

FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH = 1, 2, 23
BY_ID = 13
UNKNOWN_ID = bytes(range(16))


def filled(talk: Talk, stem: str = "t", partitions: int = 1) -> tuple[str, bytes]:
    """A topic with three batches, of two records each, in partition 0."""
    name, topic_id = talk.create_with_id(stem, partitions)
    for number in range(3):
        data = batch(b"a" * 50, b"b" * 50, timestamp=TIMESTAMP + 1000 * number)
        talk.exchange(produce_request(name, {0: data}), 11)
    return name, topic_id


def fetch_versions(talk: Talk) -> None:
    """Good and bad offsets, partitions and topics in every version."""
    name, topic_id = filled(talk)
    for version in versions(FETCH):
        topic: str | bytes = name if version < BY_ID else topic_id
        unknown: str | bytes = talk.topic("absent") if version < BY_ID else UNKNOWN_ID
        for offset in (0, 1, 5, 6, 7, -1, 2**63 - 1):
            talk.ask(f"v{version} offset {offset}", fetch_request(topic, offset), version)
        talk.ask(f"v{version} partition 9", fetch_request(topic, partition=9), version)
        talk.ask(f"v{version} partition -1", fetch_request(topic, partition=-1), version)
        talk.ask(f"v{version} unknown topic", fetch_request(unknown), version)
        talk.ask(f"v{version} nothing", FetchRequest(max_wait_ms=0, min_bytes=0), version)
        committed = fetch_request(topic)
        committed.isolation_level = 1
        talk.ask(f"v{version} committed", committed, version)
    talk.ask("zero id", fetch_request(bytes(16)), 13)


def fetch_epochs(talk: Talk) -> None:
    """Current leader epochs and last fetched epochs."""
    name, topic_id = filled(talk)
    for version in versions(FETCH, 9):
        topic: str | bytes = name if version < BY_ID else topic_id
        for epoch in (-2, -1, 0, 1, 5):
            talk.ask(f"v{version} epoch {epoch}", fetch_request(topic, leader_epoch=epoch), version)
            if version < 12:
                continue
            for offset in (0, 3, 6, 7):
                request = fetch_request(topic, offset)
                request.topics[0].partitions[0].last_fetched_epoch = epoch
                talk.ask(f"v{version} fetched epoch {epoch} at {offset}", request, version)


def fetch_limits(talk: Talk) -> None:
    """Byte limits, waits and isolation levels."""
    name, _ = filled(talk, partitions=3)
    other, _ = filled(talk, "u")
    one = len(batch(b"a" * 50, b"b" * 50))
    for size in (-1, 0, 1, one - 1, one, one + 1, 2 * one, 3 * one, 10 * one, 2**31 - 1):
        talk.ask(f"max bytes {size}", fetch_request(name, max_bytes=size), 12)
        talk.ask(f"partition max {size}", fetch_request(name, partition_max_bytes=size), 12)
        both = fetch_request(name, max_bytes=size)
        both.topics.append(fetch_request(other).topics[0])
        talk.ask(f"two partitions, max bytes {size}", both, 12)
    for wait, least in ((-1, 1), (0, 1), (50, 1), (50, 0), (50, -1), (50, 10**6), (1, 2**31 - 1)):
        full = fetch_request(name, wait_ms=wait, min_bytes=least)
        talk.ask(f"full, wait {wait}, min {least}", full, 12)
        at_end = fetch_request(name, 6, wait_ms=wait, min_bytes=least)
        talk.ask(f"at the end, wait {wait}, min {least}", at_end, 12)
    for level in (-1, 2, 127):
        request = fetch_request(name)
        request.isolation_level = level
        talk.ask(f"isolation level {level}", request, 12)
    twice = fetch_request(name)
    twice.topics[0].partitions *= 2
    talk.ask("partition twice", twice, 12)
    twice = fetch_request(name)
    twice.topics *= 2
    talk.ask("topic twice", twice, 12)
    mixed = fetch_request(name)
    for partition in (1, 2, 7):
        mixed.topics[0].partitions += fetch_request(name, partition=partition).topics[0].partitions
    talk.ask("several partitions, one unknown", mixed, 12)
    rack = fetch_request(name)
    rack.rack_id = "somewhere"
    talk.ask("rack", rack, 12)


def fetch_sessions(talk: Talk) -> None:
    """KIP-227: full, incremental, forgotten, closed, unknown, out of step."""
    for version in (7, 12, 13, 17):
        name, topic_id = filled(talk, f"t{version}", 3)
        topic: str | bytes = name if version < BY_ID else topic_id
        _session(talk, version, name, topic)


def _session(talk: Talk, version: int, name: str, topic: str | bytes) -> None:
    def say(label: str, request: FetchRequest) -> Any:
        return talk.ask(f"v{version} {label}", request, version)

    def within(
        epoch: int, *partitions: tuple[int, int], session: int | None = None
    ) -> FetchRequest:
        request = fetch_request(topic, session_id=session_id if session is None else session)
        request.session_epoch = epoch
        request.topics[0].partitions = [
            fetch_request(topic, offset, partition=partition).topics[0].partitions[0]
            for partition, offset in partitions
        ]
        if not partitions:
            request.topics = []
        return request

    session_id = 0
    full = within(0, (0, 0), (1, 0))
    session_id = say("full", full).session_id
    say("nothing new named", within(1))
    say("moved on", within(2, (0, 6)))
    say("nothing to tell", within(3))
    say("a partition more", within(4, (2, 0)))
    talk.exchange(produce_request(name, {1: batch(b"new")}), 11)
    say("news", within(5))
    forgetful = within(6)
    forgotten = ForgottenTopic(partitions=[1])
    if isinstance(topic, str):
        forgotten.topic = topic
    else:
        forgotten.topic_id = topic
    forgetful.forgotten_topics_data = [forgotten]
    say("forget", forgetful)
    say("unknown partition", within(7, (9, 0)))
    say("still unknown", within(8))
    say("out of range", within(9, (0, 99)))
    say("still out of range", within(10))
    say("epoch repeated", within(10))
    say("epoch ahead", within(20))
    say("goes on", within(11))
    say("unknown session", within(3, (0, 0), session=session_id ^ 0x5555))
    say("unknown session, full", within(0, (0, 0), session=session_id ^ 0x5555))
    say("negative epoch", within(-2, (0, 0)))
    say("restart in place", within(0, (0, 0)))
    say("old id after the restart", within(1))
    say("close an unknown one", within(-1, (0, 0), session=12345))
    session_id = say("full again", within(0, (0, 0), session=0)).session_id
    say("close", within(-1, (0, 0)))
    say("after the close", within(1))
    say("no session, epoch 5", within(5, (0, 0), session=0))
    session_id = say("no partition, full", within(0, session=0)).session_id
    if version in (12, 13):
        session_id = talk.exchange(within(0, (0, 0), session=0), version).session_id
        switched = within(1)
        talk.ask(f"v{version} other kind of id", switched, 25 - version)


def fetch_as_follower(talk: Talk) -> None:
    """Replica ids that are no replica."""
    name, topic_id = filled(talk)
    for version in versions(FETCH):
        for replica in (-3, -2, 0, 5):
            request = fetch_request(name if version < BY_ID else topic_id)
            request.replica_id = request.replica_state.replica_id = replica
            talk.ask(f"v{version} replica {replica}", request, version)


def list_offsets(talk: Talk) -> None:
    """Every special timestamp in every version, on logs with and without records."""
    name, _ = filled(talk, partitions=2)
    append = talk.create("append", message_timestamp_type="LogAppendTime")
    talk.exchange(produce_request(append, {0: batch(b"a")}), 11)
    stamps = [-6, -5, -4, -3, -2, -1, 0, TIMESTAMP - 1, TIMESTAMP, TIMESTAMP + 1]
    stamps += [
        TIMESTAMP + 2,
        TIMESTAMP + 1000,
        TIMESTAMP + 2001,
        TIMESTAMP + 2002,
        2**63 - 1,
        -(2**63),
    ]
    for version in versions(LIST_OFFSETS):
        for stamp in stamps:
            for partition in (0, 1):
                asked = ListOffsetsPartition(
                    partition_index=partition, timestamp=stamp, max_num_offsets=5
                )
                talk.ask(f"v{version} {stamp} of {partition}", offsets(name, asked), version)
        stamped = ListOffsetsPartition(partition_index=0, timestamp=-3)
        talk.ask(f"v{version} append time", offsets(append, stamped), version)
        few = ListOffsetsPartition(partition_index=0, timestamp=-1, max_num_offsets=0)
        talk.ask(f"v{version} no offsets", offsets(name, few), version)
        few = ListOffsetsPartition(partition_index=0, timestamp=-1, max_num_offsets=1)
        talk.ask(f"v{version} one offset", offsets(name, few), version)
        talk.ask(f"v{version} unknown partition", offsets(name, _end(9)), version)
        talk.ask(f"v{version} unknown topic", offsets(talk.topic("absent"), _end(0)), version)
        talk.ask(f"v{version} twice", offsets(name, _end(0), _end(0), _end(1)), version)
        for epoch in (0, 1, 7, -2):
            known = _end(0)
            known.current_leader_epoch = epoch
            talk.ask(f"v{version} epoch {epoch}", offsets(name, known), version)
        for replica in (0, 5, -2, -3):
            request = offsets(name, _end(0))
            request.replica_id = replica
            talk.ask(f"v{version} replica {replica}", request, version)
        request = offsets(name, _end(0))
        request.isolation_level = 1
        talk.ask(f"v{version} committed", request, version)
        talk.ask(f"v{version} no topics", ListOffsetsRequest(replica_id=-1), version)
        empty = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name)])
        talk.ask(f"v{version} no partitions", empty, version)


def _end(partition: int) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition_index=partition, timestamp=-1, max_num_offsets=9)


def offsets(topic: str, *partitions: ListOffsetsPartition) -> ListOffsetsRequest:
    """Ask for offsets in one topic."""
    topics = [ListOffsetsTopic(name=topic, partitions=list(partitions))]
    return ListOffsetsRequest(replica_id=-1, topics=topics)


def offset_for_leader_epoch(talk: Talk) -> None:
    """Ends of epochs that were, are and will be."""
    name, _ = filled(talk, partitions=2)
    for version in versions(OFFSET_FOR_LEADER_EPOCH):
        for partition in (0, 1, 9):
            for epoch in (-2, -1, 0, 1, 5):
                for current in (-1, 0, 3):
                    asked = OffsetForLeaderPartition(
                        partition=partition, current_leader_epoch=current, leader_epoch=epoch
                    )
                    label = f"v{version} {epoch} of {partition} by {current}"
                    talk.ask(label, _ends(name, asked), version)
        asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
        talk.ask(f"v{version} unknown topic", _ends(talk.topic("absent"), asked), version)
        as_replica = _ends(name, asked)
        as_replica.replica_id = 0
        talk.ask(f"v{version} replica 0", as_replica, version)
        talk.ask(f"v{version} nothing", OffsetForLeaderEpochRequest(), version)


def _ends(topic: str, asked: OffsetForLeaderPartition) -> OffsetForLeaderEpochRequest:
    topics = [OffsetForLeaderTopic(topic=topic, partitions=[asked])]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


CONVERSATIONS: tuple[Callable[[Talk], None], ...] = (
    fetch_versions,
    fetch_epochs,
    fetch_limits,
    fetch_sessions,
    fetch_as_follower,
    list_offsets,
    offset_for_leader_epoch,
)
