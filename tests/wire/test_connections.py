"""Limits on connections: how many, how many from one address, how long idle."""

import contextlib
import time

import pytest

from tests.support.brokers import StartServer
from tests.support.connections import HungUp, RawConnection
from tests.support.waiting import until
from tests.wire.raw import API_VERSIONS, request
from tests.wire.servers import Server

ASK = request(API_VERSIONS, 0)


def test_too_many_from_one_address(start_server: StartServer, target: str) -> None:
    server = start_server({"max.connections.per.ip": "6"})
    with contextlib.ExitStack() as stack:
        # Apache Kafka's connections to itself count too, so there it may be fewer.
        count = 6 if target == "odradek" else 3
        first = [stack.enter_context(served(server)) for _ in range(count)]
        while target != "odradek":
            try:
                further = stack.enter_context(RawConnection(server.host, server.port))
                further.ask(ASK)
            except HungUp:
                break
            first.append(further)
        assert len(first) <= 6
        with RawConnection(server.host, server.port) as refused:
            assert refused.wait_closed()
        first[0].socket.close()
        stack.enter_context(served(server))
        first[1].ask(ASK)


def served(server: Server) -> RawConnection:
    """A connection that got an answer; the broker may notice a closed one a moment later."""

    def answered() -> RawConnection | None:
        connection = RawConnection(server.host, server.port)
        try:
            connection.ask(ASK)
        except HungUp:
            connection.socket.close()
            return None
        return connection

    return until(answered, "a connection is served")


def test_too_many_wait_in_the_backlog(start_server: StartServer, odradek_only: None) -> None:
    """Apache Kafka exempts the listener that the brokers use, and a lone broker has no other."""
    server = start_server({"max.connections": "3"})
    with contextlib.ExitStack() as stack:
        first = [stack.enter_context(RawConnection(server.host, server.port)) for _ in range(3)]
        for connection in first:
            connection.ask(ASK)
        waiting = stack.enter_context(RawConnection(server.host, server.port))
        waiting.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            waiting.ask(ASK)
        first[0].socket.close()
        waiting.socket.settimeout(30)
        assert waiting.read_frame()
        first[1].ask(ASK)


def test_a_flood_from_one_address(start_server: StartServer, odradek_only: None) -> None:
    """As many are accepted as the limit allows, and another listener is not affected.

    One second's worth may be saved up; time is measured around everything, so that a machine that
    stands still can't make it fail.
    """
    rate, seconds = 200, 3.0
    server = start_server(
        {
            "max.connection.creation.rate": "100000",
            "listener.name.plaintext.max.connection.creation.rate": str(rate),
            "quota.window.num": "2",
            "socket.listen.backlog.size": "4096",
        }
    )
    began = time.monotonic()
    flood = [RawConnection(server.host, server.port) for _ in range(2000)]
    for connection in flood:
        connection.send_frame(ASK)
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    accepted = sum(is_answered(connection) for connection in flood)
    passed_s = time.monotonic() - began
    for connection in flood:
        connection.socket.close()
    assert accepted <= (rate * (passed_s + 2)) * 1.1
    assert accepted >= rate * seconds * 0.9 or passed_s > 2 * seconds


def is_answered(connection: RawConnection) -> bool:
    """Whether an answer is there already."""
    connection.socket.setblocking(False)
    try:
        return len(connection.socket.recv(1)) == 1
    except BlockingIOError:
        return False


def test_idle_connections_are_closed(start_server: StartServer) -> None:
    # Longer than a machine stops: who asks all the time must not seem idle.
    server = start_server({"connections.max.idle.ms": "6000"})
    with (
        RawConnection(server.host, server.port) as idle,
        RawConnection(server.host, server.port) as busy,
    ):
        started = time.monotonic()
        idle.ask(ASK)
        idle.socket.settimeout(0.05)
        closed_after_s = 0.0
        while not closed_after_s:
            busy.ask(ASK)
            with contextlib.suppress(TimeoutError):
                assert idle.socket.recv(1) == b""
                closed_after_s = time.monotonic() - started
            assert time.monotonic() - started < 30
        assert closed_after_s > 5.5
        busy.ask(ASK)


def test_many_idle_connections(start_server: StartServer) -> None:
    """They are served afterwards; what they cost is measured by benchmarks/limits.py."""
    server = start_server()
    with contextlib.ExitStack() as stack:
        # One after the other: a burst would overflow the backlog and wait for a second SYN.
        many = [stack.enter_context(served(server)) for _ in range(400)]
        for connection in reversed(many):
            connection.ask(ASK)
