"""Connections of both kinds: bad frames, order, back-pressure, limits."""

import asyncio
import fcntl
import socket
import struct
import termios
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from odradek.broker.handlers import APIS
from odradek.broker.net.call import Call
from odradek.broker.net.connection import Connection
from odradek.broker.net.receive import SCRATCH_BYTES
from odradek.broker.node import Node
from odradek.protocol.errors import ErrorCode
from odradek.protocol.framing import FRAME_SIZE
from odradek.protocol.messages.k00_produce import ProduceResponse
from odradek.protocol.messages.k01_fetch import FetchResponse
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.collecting import nothing_left
from tests.support.connections import HungUp
from tests.support.frames import framed, request_bytes
from tests.support.messages import batch_of, fetch_request, produce_request, records_in
from tests.support.waiting import until as blocking_until

from ..requests import SENSIBLE, TOPIC, metadata
from ..running import RunningBroker, on_broker, waiters_of

LONG_MS = 60_000
KIB = 1 << 10
MIB = 1 << 20


def start_of(api_key: int, version: int, *, flexible: bool = False) -> bytes:
    """A request's header without client id."""
    return struct.pack(">hhih", api_key, version, 1, -1) + (b"\0" if flexible else b"")


async def is_served(client: Client) -> bool:
    answer: MetadataResponse = await client.ask(metadata(), 12)
    return len(answer.brokers) == 1


def own_sweep(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on only the test sweeps, when it is time."""
    sweep = broker.connections.sweep
    monkeypatch.setattr(broker.connections, "sweep", lambda: None)
    return sweep


# What is no request.

NOT_SERVED = [
    FRAME_SIZE.pack(-1),
    FRAME_SIZE.pack(-(1 << 31)),
    FRAME_SIZE.pack((1 << 31) - 1),
    FRAME_SIZE.pack(100 * MIB + 1),
    framed(b""),
    framed(b"\0"),
    framed(b"\0\x03\0\x01\0\0\0\x01"),  # ends before the client id
    framed(struct.pack(">hhihh", 3, 1, 1, -2, 0)),  # a client id of -2 bytes
    framed(struct.pack(">hhih2s", 3, 1, 1, 2, b"\xff\xff") + b"\0\0\0\0"),  # not UTF-8
    framed(start_of(999, 0)),
    framed(start_of(-1, 0)),
    framed(start_of(4, 0)),  # LeaderAndIsr, from whomever
    framed(start_of(3, 13)),
    framed(start_of(3, -1)),
    framed(start_of(0, 12)),
    framed(start_of(3, 1) + struct.pack(">i", 1 << 30)),  # lying counts
    framed(start_of(3, 1) + struct.pack(">i", -2)),
    framed(start_of(3, 9, flexible=True) + b"\xff\xff\xff\xff\x0f"),
    framed(start_of(1, 4) + bytes(20)),
    framed(start_of(0, 3) + struct.pack(">hhiih", -1, 1, 1, 1, 1000)),
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),  # TLS
]


# A machine that stands still for a moment makes a line of its own.
@on_broker({"odradek.loop.stall.check.ms": "0"})
async def test_what_is_no_request_ends_its_connection_only(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    good = await broker.client()
    for data in NOT_SERVED:
        caplog.clear()
        client = await broker.client()
        client.send_bytes(data)
        assert await client.is_closed(), data
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == 1, (data, lines)
        assert lines[0].startswith("connection closed peer=127.0.0.1"), lines
        assert caplog.records[0].exc_info is None
        broker.connections.sweep()  # else the lines would soon be too many
        assert await is_served(good)


@pytest.mark.slow
@on_broker(both=False)
async def test_every_truncation_of_every_request(broker: RunningBroker) -> None:
    """Each is answered or closes; none is our bug."""
    client = await broker.client()
    topic = await client.create_topic(TOPIC)
    for api_key, sensible in SENSIBLE.items():
        whole = request_bytes(sensible(0, topic.topic_id), 0)
        for end in range(8, len(whole), 3):
            cut = await broker.client()
            cut.send_frame(whole[:end])
            assert await cut.is_closed(), (api_key, end)
            broker.connections.sweep()


MANY_SMALL = {
    "Metadata": start_of(3, 1) + struct.pack(">i", 4 * MIB - 10) + bytes(8 * MIB - 20),
    "FindCoordinator": start_of(10, 4, flexible=True)
    + b"\0\x80\x80\x80\3"
    + b"\1" * (8 * MIB - 30),
    "Produce": start_of(0, 3) + struct.pack(">hhii", -1, 1, 0, 5 * MIB) + bytes(30 * MIB),
}


@pytest.mark.parametrize("frame", MANY_SMALL.values(), ids=MANY_SMALL)
@on_broker(both=False)
async def test_millions_of_tiny_elements_are_not_built(
    broker: RunningBroker, frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    client, good = await broker.client(), await broker.client()
    client.send_frame(frame)
    assert await client.is_closed()
    assert "too many elements" in caplog.text
    assert await is_served(good)


@on_broker()
async def test_a_flood_of_bad_frames_makes_few_lines(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = own_sweep(broker, monkeypatch)
    for _ in range(60):
        client = await broker.client()
        client.send_bytes(FRAME_SIZE.pack(-1))
        assert await client.is_closed()
    sweep()
    lines = [record.getMessage() for record in caplog.records]
    assert sum(line.startswith("connection closed") for line in lines) == 20
    assert any("without a log line count=" in line for line in lines)


@on_broker()
async def test_answers_before_a_bad_frame_arrive(broker: RunningBroker) -> None:
    client = await broker.client()
    good = framed(request_bytes(metadata(), 12))
    client.send_bytes(good * 3 + FRAME_SIZE.pack(-1))
    for _ in range(3):
        await client.read_frame()
    with pytest.raises(HungUp):
        await client.read_frame()


@on_broker()
async def test_api_versions_of_the_future(broker: RunningBroker) -> None:
    client = await broker.client()
    client.send_frame(struct.pack(">hhi", 18, 99, 5) + b"a body of v99")
    frame = await client.read_frame()
    answer, end = ApiVersionsResponse.decode(frame, 0, 4)
    assert end == len(frame)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(a.api_key, a.min_version, a.max_version) for a in answer.api_keys] == [(18, 0, 4)]
    assert await is_served(client)


@on_broker()
async def test_the_software_of_a_client_is_in_the_log(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = await broker.client()
    name = ApiVersionsRequest(client_software_name="my-client", client_software_version="1.2")
    await client.ask(name, 3)
    client.send_bytes(FRAME_SIZE.pack(-1))
    assert await client.is_closed()
    assert "client=my-client-1.2" in caplog.text


@on_broker()
async def test_a_closed_connection_leaves_nothing_to_the_collector(broker: RunningBroker) -> None:
    """It would look through everything for so long that others notice."""
    async with nothing_left(Connection):
        for _ in range(5):
            client = await broker.client()
            assert await is_served(client)
            client.send_bytes(FRAME_SIZE.pack(-1))
            assert await client.is_closed()


# Order.


@pytest.mark.slow
@on_broker()
async def test_a_thousand_requests_at_once_are_answered_in_order(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    requests = [produce_request("t", {0: batch_of(b"%d" % n)}) for n in range(1000)]
    sent = [client.send(request, 11) for request in requests]
    for number, correlation_id in enumerate(sent):
        answer = await client.read(ProduceResponse, 11, correlation_id)
        assert answer.responses[0].partition_responses[0].base_offset == number
    data = await client.fetch("t", 0)
    assert [int(value) for _, value in records_in(data.records)] == list(range(1000))


def slow_down(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, each_ms: int
) -> list[str | None]:
    """Let each Metadata take so long; returns the client ids of those that are handled."""
    handled: list[str | None] = []

    def slow(request: MetadataRequest, call: Call, node: Node) -> Any:
        handled.append(call.client_id)
        broker.clock.moved_ms += each_ms
        return handle(request, call, node)

    handle = APIS[3].handle
    monkeypatch.setattr(APIS[3], "handle", slow)
    return handled


def delivered(*clients: Client) -> None:
    """Wait, without a turn of the loop, until what they have sent has come.

    On a busy machine the system delivers it later, and what others send comes first.
    """
    for client in clients:
        blocking_until(partial(_has_delivered, client.writer.get_extra_info("socket")))


def _has_delivered(sender: socket.socket) -> bool:
    return not any(fcntl.ioctl(sender, termios.TIOCOUTQ, bytes(4)))


@on_broker()
async def test_a_flood_of_requests_lets_others_have_their_turn(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what has come at once, half a millisecond is handled in a row."""
    flooding, good = await broker.client(), await broker.client()
    assert await is_served(flooding)
    assert await is_served(good)
    handled = slow_down(broker, monkeypatch, 2)
    for number in range(20):
        flooding.send(metadata(), 12, client_id=f"flood-{number}")
    good.send(metadata(), 12, client_id="good")
    delivered(flooding, good)
    for client, count in ((good, 1), (flooding, 20)):
        for _ in range(count):
            await client.read_frame()
    assert 1 <= handled.index("good") <= 2
    handled.remove("good")
    assert handled == [f"flood-{number}" for number in range(20)]


@on_broker()
async def test_floods_and_others_get_the_same_share(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    floods, good = [await broker.client() for _ in range(10)], await broker.client()
    handled = slow_down(broker, monkeypatch, 2)
    for flood in floods:
        for _ in range(50):
            flood.send(metadata(), 12, client_id="flood")
    for _ in range(5):
        good.send(metadata(), 12, client_id="good")
        delivered(*floods, good)
        before = len(handled)
        await good.read_frame()
        others = handled.index("good", before) - before
        assert others < 21, "each of the eleven is served once before one is for the third time"
    for flood in floods:
        for _ in range(50):
            await flood.read_frame()


@on_broker()
async def test_clients_that_wait_for_their_turn_are_all_served(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those from which more comes meanwhile, and those that hang up."""
    clients = [await broker.client() for _ in range(20)]
    handled = slow_down(broker, monkeypatch, 1)
    broker.connections.shares.begin_turns()
    for _ in range(10):
        for number, client in enumerate(clients):
            client.send(metadata(), 12, client_id=f"client {number}")
        await asyncio.sleep(0)
    clients[0].abort()
    for client in clients[1:]:
        for _ in range(10):
            await client.read_frame()
        client.send(metadata(), 12, client_id="again")
    for client in clients[1:]:
        await client.read_frame()
    counts = Counter(handled)
    assert counts.pop("again") == 19
    assert counts.pop("client 0", 0) <= 10
    assert counts == {f"client {number}": 10 for number in range(1, 20)}
    assert broker.connections.shares.take_turns


@on_broker()
async def test_requests_byte_by_byte(broker: RunningBroker) -> None:
    client = await broker.client()
    stream = framed(request_bytes(metadata(), 12)) * 2
    for position in range(len(stream)):
        client.send_bytes(stream[position : position + 1])
        await client.writer.drain()
        await asyncio.sleep(0)
    for _ in range(2):
        await client.read_frame()


@on_broker()
async def test_no_other_request_overtakes_one_that_waits(broker: RunningBroker) -> None:
    client, writer = await broker.client(), await broker.client()
    await writer.create_topic("t")
    fetched = client.send(fetch_request("t", wait_ms=LONG_MS), 12)
    produced = client.send(produce_request("t", {0: batch_of(b"after")}), 11)
    asked = client.send(metadata(), 12)
    await until(lambda: waiters_of(broker))
    partition = broker.node.replicas.partitions["t", 0]
    assert partition.log.log_end_offset == 0
    await writer.append("t", batch_of(b"before"))
    answer = await client.read(FetchResponse, 12, fetched)
    assert records_in(answer.responses[0].partitions[0].records) == [(0, b"before")]
    appended = await client.read(ProduceResponse, 11, produced)
    assert appended.responses[0].partition_responses[0].base_offset == 1
    await client.read(MetadataResponse, 12, asked)


@on_broker()
async def test_a_produce_without_acks_that_fails_hangs_up(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = await broker.client()
    await client.create_topic("t")
    client.send(produce_request("t", {0: batch_of(b"good")}, acks=0), 11)
    assert await is_served(client), "nothing is answered if it succeeds"
    client.send(produce_request("t", {0: batch_of(b"more"), 7: batch_of(b"bad")}, acks=0), 11)
    assert await client.is_closed()
    assert "Produce with acks=0 failed: UNKNOWN_TOPIC_OR_PARTITION" in caplog.text
    data = await (await broker.client()).fetch("t")
    assert [value for _, value in records_in(data.records)] == [b"good", b"more"]


# Back-pressure and memory.


async def deaf_client(broker: RunningBroker) -> socket.socket:
    """A connection that nobody reads from, with small buffers of the system."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)  # some machines let it grow to MBs
    deaf.setblocking(False)
    await asyncio.get_running_loop().sock_connect(deaf, ("127.0.0.1", broker.port))
    return deaf


def stuff(deaf: socket.socket, data: bytes) -> int:
    """Send as much as the system takes."""
    sent = 0
    try:
        while sent < len(data):
            sent += deaf.send(data[sent : sent + 65536])
    except BlockingIOError:
        return sent
    return sent


@pytest.mark.slow
@on_broker({"socket.send.buffer.bytes": "65536", "socket.receive.buffer.bytes": "65536"})
async def test_who_does_not_read_is_not_read_from(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 100)
    deaf = await deaf_client(broker)
    requests = framed(request_bytes(metadata("t"), 12)) * 100_000
    sent = 0
    for _ in range(50):
        sent += stuff(deaf, requests[sent : sent + 300_000])
        assert await is_served(client)
        assert broker.connections.budget.used_bytes <= SCRATCH_BYTES
    assert sent < len(requests), "the broker went on reading"
    (connection,) = [c for c in broker.connections._open if c.is_sending]
    assert not connection.is_reading
    deaf.close()
    await until(lambda: len(broker.connections) == 1)


# Limits.


@on_broker({"connections.max.idle.ms": "10000"})
async def test_who_idles_is_closed(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = own_sweep(broker, monkeypatch)
    idle, busy, waiting = [await broker.client() for _ in range(3)]
    await busy.create_topic("t")
    await idle.ask(metadata(), 12)
    broker.clock.moved_ms = 9_000
    await is_served(busy)
    waiting.send(fetch_request("t", wait_ms=LONG_MS), 12)
    await until(lambda: waiters_of(broker))
    broker.clock.moved_ms = 12_000
    sweep()
    assert await idle.is_closed()
    assert len(broker.connections) == 2
    broker.clock.moved_ms = 100_000
    await is_served(busy)
    sweep()
    assert len(broker.connections) == 2, "who waits for an answer is not idle"


@on_broker({"connections.max.idle.ms": "10000"})
async def test_who_waits_and_would_not_be_seen_hanging_up_is_idle(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = own_sweep(broker, monkeypatch)
    client, other = await broker.client(), await broker.client()
    await other.create_topic("t")
    client.send(fetch_request("t", wait_ms=LONG_MS), 12)
    await until(lambda: waiters_of(broker))
    client.send(metadata(), 12)
    await until(lambda: any(not c.is_reading for c in broker.connections._open))
    broker.clock.moved_ms = 20_000
    await is_served(other)
    sweep()
    assert await client.is_closed()


@on_broker({"connections.max.idle.ms": "-1"})
async def test_a_negative_idle_time_closes_nobody(broker: RunningBroker) -> None:
    client = await broker.client()
    assert await is_served(client)
    broker.clock.moved_ms = 10**9
    broker.connections.sweep()
    assert await is_served(client)


@on_broker({"max.connections.per.ip": "2"})
async def test_so_many_connections_from_one_address(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await broker.client(), await broker.client()
    assert await is_served(first)
    assert await is_served(second)
    assert await (await broker.client()).is_closed()
    assert "max.connections.per.ip=2" in caplog.text
    await first.close()
    await until(lambda: len(broker.connections) == 1)
    assert await is_served(await broker.client())


@on_broker({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:1"})
async def test_an_address_with_a_limit_of_its_own(broker: RunningBroker) -> None:
    assert await is_served(await broker.client())
    assert await (await broker.client()).is_closed()


@on_broker({"max.connections": "2"}, both=False)
async def test_above_the_limit_clients_wait_in_the_backlog(broker: RunningBroker) -> None:
    first, second = await broker.client(), await broker.client()
    assert await is_served(first)
    assert await is_served(second)
    third = await broker.client()
    waiting = asyncio.ensure_future(is_served(third))
    for _ in range(3):
        assert await is_served(first)
    assert not waiting.done()
    assert len(broker.connections) == 2
    await second.close()
    assert await waiting


@on_broker({"socket.send.buffer.bytes": "30000", "socket.receive.buffer.bytes": "20000"})
async def test_the_buffers_of_a_socket(broker: RunningBroker) -> None:
    client = await broker.client()
    await is_served(client)
    (connection,) = broker.connections._open
    transport = getattr(connection, "_transport", None)
    sock = connection._socket if transport is None else transport.get_extra_info("socket")  # type: ignore[attr-defined]
    # Linux doubles what it is told.
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 60_000
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 40_000
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


@on_broker()
async def test_stopping_hangs_up_on_everybody(broker: RunningBroker) -> None:
    idle, waiting, half = [await broker.client() for _ in range(3)]
    await idle.create_topic("t")
    waiting.send(fetch_request("t", wait_ms=LONG_MS), 12)
    half.send_bytes(FRAME_SIZE.pack(MIB) + bytes(100 * KIB))
    deaf = await deaf_client(broker)
    await until(lambda: waiters_of(broker) and broker.connections.budget.used_bytes)
    await broker.stop()
    for client in (idle, waiting, half):
        assert await client.is_closed()
    deaf.close()


@on_broker()
async def test_a_bug_in_a_handler_ends_one_connection(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(name: bytes) -> str:
        raise ZeroDivisionError

    good, bad = await broker.client(), await broker.client()
    await good.create_topic("t")
    monkeypatch.setattr(broker.node.metadata, "topic_name", bug)
    bad.send(fetch_request(bytes(range(16))), 13)
    assert await bad.is_closed()
    assert "ZeroDivisionError" in caplog.text
    assert await is_served(good)
