"""Fetch over the wire: limits, long polls, sessions, errors."""

import asyncio
from typing import Any

import pytest

from odradek.broker.net.dispatcher import Dispatcher
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.records import HEADER_SIZE_BYTES, read_header
from odradek.storage.errors import OffsetOutOfRange
from tests.broker.net.test_dispatcher import FakeClient
from tests.broker.requests import delete_topics
from tests.broker.running import RunningBroker, on_broker, waiters_of
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.collecting import nothing_left
from tests.support.frames import framed, request_bytes
from tests.support.messages import batch_of, fetch_request, records_in

LONG_MS = 60_000
OFFSET_UNKNOWN = -1


def of(*partitions: tuple[int, int], topic: str = "t", **more: Any) -> FetchRequest:
    """A Fetch of (partition, offset) of one topic."""
    wanted = [
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        for partition, offset in partitions
    ]
    more = {"max_wait_ms": 0, "min_bytes": 1, **more}
    return FetchRequest(topics=[FetchTopic(topic=topic, partitions=wanted)], **more)


def answered(response: FetchResponse) -> dict[int, list[int]]:
    """The offsets that came, by partition."""
    return {
        partition.partition_index: [offset for offset, _ in records_in(partition.records)]
        for topic in response.responses
        for partition in topic.partitions
    }


@on_broker()
async def test_batches_come_back_byte_for_byte(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    first, second = batch_of(b"a", b"b"), batch_of(b"c" * 100_000)
    for batch in (first, second):
        await client.append("t", batch)
    data = await client.fetch("t", 0)
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (
        3,
        3,
        0,
    )
    records = memoryview(data.records)  # type: ignore[arg-type]
    # Only the base offset and the leader epoch are the broker's.
    assert records[16 : len(first)] == first[16:]
    assert records[len(first) + 16 :] == second[16:]
    assert records_in(records)[2][0] == 2


@on_broker()
async def test_a_batch_is_answered_whole(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for _ in range(3):
        await client.append("t", batch_of(b"a", b"b"))
    data = await client.fetch("t", 3)
    assert [offset for offset, _ in records_in(data.records)] == [2, 3, 4, 5]
    one = await client.fetch("t", 3, max_bytes=1, partition_max_bytes=1)
    assert [offset for offset, _ in records_in(one.records)] == [2, 3]
    negative = await client.fetch("t", 3, max_bytes=-5, partition_max_bytes=-5)
    assert [offset for offset, _ in records_in(negative.records)] == [2, 3]
    size_bytes = 2 * len(batch_of(b"a", b"b"))
    two = await client.fetch("t", 0, partition_max_bytes=size_bytes + 10)
    assert [offset for offset, _ in records_in(two.records)] == [0, 1, 2, 3]


@on_broker(both=False)
async def test_only_the_first_partition_may_exceed_the_limits(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 3)
    for partition in (1, 2):
        await client.append("t", batch_of(b"a"), partition=partition)
    request = of((0, 0), (1, 0), (2, 0), max_bytes=HEADER_SIZE_BYTES)
    assert answered(await client.ask(request, 12)) == {0: [], 1: [0], 2: []}
    request = of((2, 0), (1, 0), (0, 0), max_bytes=HEADER_SIZE_BYTES)
    assert answered(await client.ask(request, 12)) == {0: [], 1: [], 2: [0]}


@on_broker({"fetch.max.bytes": "1024"}, both=False)
async def test_fetch_max_bytes_of_the_broker(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for _ in range(3):
        await client.append("t", batch_of(b"a" * 400))
    data = await client.fetch("t", 0)
    assert [offset for offset, _ in records_in(data.records)] == [0, 1]


@on_broker(both=False)
async def test_what_is_wrong_with_a_partition(broker: RunningBroker) -> None:
    client = await broker.client()
    topic = await client.create_topic("t")
    await client.append("t", batch_of(b"a"))
    for offset in (-1, 2, 1 << 62):
        data = await client.fetch("t", offset, wait_ms=LONG_MS)
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert data.high_watermark == OFFSET_UNKNOWN
        assert data.records == b""
    assert (await client.fetch("t", 1)).error_code == 0
    partition = broker.node.replicas.partitions["t", 0]
    partition.become(partition.state._replace(leader_epoch=5), 0)
    codes = {
        "absent": (await client.fetch("absent", wait_ms=LONG_MS)).error_code,
        "partition": (await client.fetch("t", partition=1)).error_code,
        "negative": (await client.fetch("t", partition=-1)).error_code,
        "fenced": (await client.fetch("t", leader_epoch=4)).error_code,
        "unknown": (await client.fetch("t", leader_epoch=6)).error_code,
        "current": (await client.fetch("t", leader_epoch=5)).error_code,
        "none": (await client.fetch("t", leader_epoch=-2)).error_code,
    }
    assert codes == {
        "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "partition": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "negative": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "fenced": ErrorCode.FENCED_LEADER_EPOCH,
        "unknown": ErrorCode.UNKNOWN_LEADER_EPOCH,
        "current": ErrorCode.NONE,
        "none": ErrorCode.NONE,
    }
    answer = await client.ask(fetch_request(topic.topic_id), 13)
    assert answer.responses[0].topic_id == topic.topic_id
    assert answered(answer) == {0: [0]}
    answer = await client.ask(fetch_request(bytes(range(16))), 13)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@on_broker(both=False)
async def test_a_fetcher_with_another_history_is_told_where_it_parts(
    broker: RunningBroker,
) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a"))
    partition = broker.node.replicas.partitions["t", 0]
    partition.become(partition.state._replace(leader_epoch=3), 0)
    await client.append("t", batch_of(b"b"))
    request = of((0, 2), max_wait_ms=LONG_MS)
    request.topics[0].partitions[0].last_fetched_epoch = 0
    data = (await client.ask(request, 12)).responses[0].partitions[0]
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 1)
    assert records_in(data.records) == []


@on_broker(both=False)
async def test_one_error_does_not_spoil_the_others(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    await client.append("t", batch_of(b"a"), partition=1)
    answer = await client.ask(of((0, 9), (1, 0), (2, 0), max_wait_ms=LONG_MS), 12)
    codes = [data.error_code for data in answer.responses[0].partitions]
    assert codes == [ErrorCode.OFFSET_OUT_OF_RANGE, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert answered(answer) == {0: [], 1: [0], 2: []}


@on_broker(both=False)
async def test_nothing_of_what_is_out_of_range_is_left_to_the_collector(
    broker: RunningBroker,
) -> None:
    client = await broker.client()
    await client.create_topic("t")
    async with nothing_left(OffsetOutOfRange):
        data = await client.fetch("t", 9)
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@on_broker(both=False)
async def test_replicas_are_refused(broker: RunningBroker) -> None:
    client = await broker.client()
    topic = await client.create_topic("t")
    requests = [(of((0, 0), replica_id=2), 12), (fetch_request(topic.topic_id), 15)]
    requests[1][0].replica_state = ReplicaState(replica_id=2, replica_epoch=1)
    for request, version in requests:
        data = (await client.ask(request, version)).responses[0].partitions[0]
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# Long polls.


@on_broker()
async def test_a_long_poll_wakes_on_append(broker: RunningBroker) -> None:
    reader = await broker.client()
    writer = await broker.client()
    await writer.create_topic("t", 2)
    for _ in range(3):
        correlation_id = reader.send(of((0, 0), (1, 0), max_wait_ms=LONG_MS), 12)
        await until(lambda: waiters_of(broker))
        assert len(waiters_of(broker)) == 2
        await writer.append("t", batch_of(b"a"), partition=1)
        answer = await reader.read(FetchResponse, 12, correlation_id)
        assert answered(answer)[1][0] == 0
        await writer.ask(delete_topics(6, "t"), 6)
        await writer.create_topic("t", 2)


@on_broker()
async def test_a_long_poll_waits_for_min_bytes(broker: RunningBroker) -> None:
    reader = await broker.client()
    writer = await broker.client()
    await writer.create_topic("t", 2)
    size_bytes = len(batch_of(b"a"))
    request = of((0, 0), (1, 0), max_wait_ms=LONG_MS, min_bytes=2 * size_bytes)
    correlation_id = reader.send(request, 12)
    await until(lambda: waiters_of(broker))
    await writer.append("t", batch_of(b"a"), partition=0)
    await writer.append("t", batch_of(b"a"), partition=1)
    answer = await reader.read(FetchResponse, 12, correlation_id)
    assert answered(answer) == {0: [0], 1: [0]}


@on_broker()
async def test_a_long_poll_times_out_with_what_there_is(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a"))
    start_s = asyncio.get_running_loop().time()
    data = await client.fetch("t", 0, wait_ms=30, min_bytes=1 << 20)
    assert asyncio.get_running_loop().time() - start_s >= 0.03
    assert records_in(data.records) == [(0, b"a")]


@on_broker()
async def test_a_hang_up_ends_a_long_poll(broker: RunningBroker) -> None:
    async with await broker.client() as client:
        await client.create_topic("t")
        await client.append("t", batch_of(b"a"))
    for hang_up in (Client.abort, lambda client: client.writer.close()):
        client = await broker.client()
        client.send(of((0, 0), max_wait_ms=LONG_MS, min_bytes=1 << 20), 12)
        await until(lambda: waiters_of(broker))
        hang_up(client)
        await until(lambda: not waiters_of(broker))
        await client.close()


@on_broker()
async def test_a_deleted_topic_ends_a_long_poll(broker: RunningBroker) -> None:
    reader = await broker.client()
    admin = await broker.client()
    await admin.create_topic("t")
    correlation_id = reader.send(of((0, 0), max_wait_ms=LONG_MS), 12)
    await until(lambda: waiters_of(broker))
    await admin.ask(delete_topics(6, "t"), 6)
    answer = await reader.read(FetchResponse, 12, correlation_id)
    assert answer.responses[0].partitions[0].error_code in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )


@on_broker()
async def test_a_parked_fetch_holds_back_what_follows(broker: RunningBroker) -> None:
    client = await broker.client()
    writer = await broker.client()
    await writer.create_topic("t")
    fetched = client.send(of((0, 0), max_wait_ms=LONG_MS), 12)
    others = [client.send(of((0, 0), max_wait_ms=0), 12) for _ in range(3)]
    await until(lambda: waiters_of(broker))
    await writer.append("t", batch_of(b"a"))
    for correlation_id in (fetched, *others):
        answer = await client.read(FetchResponse, 12, correlation_id)
        assert answered(answer) == {0: [0]}


async def _on_dispatchers(broker: RunningBroker, *frames: tuple[FetchRequest, int]) -> FakeClient:
    """Handle requests without a connection, in one turn of the loop."""
    fake = FakeClient()
    dispatcher = Dispatcher(broker.node, fake)
    for request, version in frames:
        dispatcher.on_frame(memoryview(request_bytes(request, version)))
    return fake


@on_broker(both=False)
async def test_what_is_appended_right_after_the_request_is_seen(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    asking = await _on_dispatchers(broker, (of((0, 0), max_wait_ms=LONG_MS), 12))
    # In the same turn of the loop another connection appends.
    partition = broker.node.replicas.partitions["t", 0]
    batch = memoryview(batch_of(b"a"))
    partition.append(batch, read_header(batch), wall_ms=0)
    await until(lambda: asking.sent)
    assert not waiters_of(broker)


# Sessions (the rules themselves are in tests/broker/core/test_fetch_session.py).


@on_broker()
async def test_a_session_over_the_wire(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    full = await client.ask(of((0, 0), (1, 0), session_id=0, session_epoch=0), 12)
    session = {"session_id": full.session_id}
    assert full.session_id > 0
    assert answered(full) == {0: [], 1: []}
    await client.append("t", batch_of(b"a"), partition=1)
    nothing_new = FetchRequest(session_epoch=1, max_wait_ms=0, min_bytes=1, **session)
    answer = await client.ask(nothing_new, 12)
    assert (answer.session_id, answered(answer)) == (full.session_id, {1: [0]})
    answer = await client.ask(of((1, 1), session_epoch=2, **session), 12)
    assert answered(answer) == {}
    forget = FetchRequest(session_epoch=3, max_wait_ms=0, **session)
    forget.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]
    assert answered(await client.ask(forget, 12)) == {}
    await client.append("t", batch_of(b"a"), partition=0)
    answer = await client.ask(of(session_epoch=4, **session), 12)
    assert answered(answer) == {}


@on_broker(both=False)
async def test_who_cuts_its_log_hears_of_the_high_watermark_again(broker: RunningBroker) -> None:
    """As it took nothing else from the answer that told it to cut, a full or an incremental one."""
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a"))
    session_id = 0

    async def fetch(offset: int, epoch: int) -> list[PartitionData]:
        nonlocal session_id
        request = of((0, offset), session_id=session_id, session_epoch=epoch)
        request.topics[0].partitions[0].last_fetched_epoch = 0
        answer = await client.ask(request, 12)
        session_id = answer.session_id
        return [data for topic in answer.responses for data in topic.partitions]

    for epoch in (0, 2):
        (parted,) = await fetch(9, epoch)
        assert parted.diverging_epoch.end_offset == 1
        (told,) = await fetch(1, epoch + 1)
        assert (told.high_watermark, told.diverging_epoch.epoch) == (1, -1)
    assert await fetch(1, 4) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("session_id", "epoch", "code"),
    [
        (12345, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (None, 5, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
@on_broker(both=False)
async def test_sessions_that_do_not_fit(
    broker: RunningBroker, session_id: int | None, epoch: int, code: ErrorCode
) -> None:
    client = await broker.client()
    await client.create_topic("t")
    full = await client.ask(of((0, 0), session_id=0, session_epoch=0), 12)
    wrong = of(session_id=session_id or full.session_id, session_epoch=epoch)
    answer = await client.ask(wrong, 12)
    assert (answer.error_code, answer.session_id, answer.responses) == (code, 0, [])


@on_broker(both=False)
async def test_a_parked_fetch_whose_session_went_on_is_told_so(broker: RunningBroker) -> None:
    first = await broker.client()
    second = await broker.client()
    await first.create_topic("t")
    full = await first.ask(of((0, 0), session_id=0, session_epoch=0), 12)
    session = {"session_id": full.session_id}
    parked = first.send(of(session_epoch=1, max_wait_ms=LONG_MS, **session), 12)
    await until(lambda: waiters_of(broker))
    await second.ask(of(session_epoch=2, **session), 12)
    await second.append("t", batch_of(b"a"))
    answer = await first.read(FetchResponse, 12, parked)
    assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


@on_broker()
async def test_a_client_that_does_not_read_holds_no_memory(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for _ in range(8):
        await client.append("t", batch_of(bytes(1_000_000)), acks=1)
    deaf = await Client.connect(broker.port, limit=1 << 16)
    request = fetch_request("t", max_bytes=1 << 24, partition_max_bytes=1 << 24)
    frame = request_bytes(request, 12)
    for _ in range(100):
        deaf.send_frame(frame)
    await until(lambda: broker.files.references)
    # Others are served meanwhile; what is held is one span, and requests that are few.
    for _ in range(3):
        assert len(records_in((await client.fetch("t", 0)).records)) == 1
        assert broker.connections.budget.used_bytes <= 1 << 20
    assert len(broker.files.references) == 1
    deaf.abort()
    await until(lambda: not broker.files.references)


@pytest.mark.slow
@on_broker()
async def test_an_answer_of_many_megabytes(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    batch = batch_of(bytes(range(256)) * 3900)
    for number in range(24):
        await client.append("t", batch, partition=number % 2, acks=1)
    request = of((0, 0), (1, 0), max_bytes=1 << 30)
    for topic in request.topics:
        for partition in topic.partitions:
            partition.partition_max_bytes = 1 << 30
    correlation_ids = [client.send(request, 12) for _ in range(2)]
    for correlation_id in correlation_ids:
        answer = await client.read(FetchResponse, 12, correlation_id)
        assert answered(answer) == {0: list(range(12)), 1: list(range(12))}
        for data in answer.responses[0].partitions:
            assert records_in(data.records)[5][1] == bytes(range(256)) * 3900


@on_broker()
async def test_frames_end_where_they_say(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a" * 200_000))
    frame = request_bytes(fetch_request("t"), 12)
    client.send_bytes(framed(frame) * 5)
    sizes = [len(await client.read_frame()) for _ in range(5)]
    assert len(set(sizes)) == 1


@on_broker({"compression.type": "zstd"}, both=False)
async def test_who_knows_no_zstd_is_told_so(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"v"))
    old, new = await client.fetch("t", version=9), await client.fetch("t", version=10)
    assert (old.error_code, old.high_watermark) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1)
    assert not old.records
    assert (new.error_code, new.high_watermark) == (0, 1)
