"""Crowds of connections that are idle, slow, or never read: what they cost, and how they end."""

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from odradek.protocol.messages.k03_metadata import MetadataRequest
from tests.support.certificates import Certificates
from tests.support.connections import RawConnection
from tests.support.frames import framed, request_bytes
from tests.support.messages import batch_of, fetch_request, produce_request
from tests.support.waiting import until

from .crowd import Dripping, crowd, is_closed, stuff
from .target import HOST, GoodClient, Target, attacked

FEW: Final = 100
MANY: Final = 2_000
MANY_IDLE: Final = 10_000
KIB: Final = 1 << 10
MIB: Final = 1 << 20
IDLE_KIB_MAX: Final = {"plain": 20, "tls": 80}
UNREAD_KIB_MAX: Final = 1_500
"""Of each connection that does not read: what it has sent, and the answer on its way out."""
PRODUCE: Final = framed(request_bytes(produce_request("absent", {0: batch_of(bytes(9000))}), 11))


def in_test_and_soak(**counts: int) -> pytest.MarkDecorator:
    """FEW connections of a kind in `make test`, and so many in `make soak`."""
    marks = [pytest.mark.soak, pytest.mark.timeout(1800)]
    return pytest.mark.parametrize(
        ("kind", "count"),
        [
            *(pytest.param(kind, FEW, id=kind) for kind in counts),
            *(
                pytest.param(kind, count, marks=marks, id=f"{kind}-{count}")
                for kind, count in counts.items()
            ),
        ],
    )


def p99_ms(good: GoodClient, count: int = 200) -> float:
    """Of so many records that the good client writes and reads."""
    for _ in range(count):
        good.work()
    return good.p99_ms()


@pytest.mark.slow
@in_test_and_soak(plain=MANY_IDLE, tls=MANY)
def test_idle_connections(
    tmp_path: Path, certificates: Certificates, kind: str, count: int
) -> None:
    """What each costs; that others are served; and that all end with their time."""
    idle_ms = 5_000 if count == FEW else 120_000
    settings = {"connections.max.idle.ms": str(idle_ms)}
    with attacked(tmp_path, certificates, settings) as target, contextlib.ExitStack() as stack:
        tls = ssl.create_default_context(cafile=certificates.trust) if kind == "tls" else None
        port = target.tls_port if tls else target.plain_port
        stack.enter_context(crowd(port, 20, tls))  # what the first ones allocate is not their price
        before_bytes = target.memory_bytes
        sockets = stack.enter_context(crowd(port, count, tls))
        each_kib = (target.memory_bytes - before_bytes) / count / KIB
        idle_since_s = time.monotonic()
        with crowd(target.plain_port, 1):
            served_s = time.monotonic() - idle_since_s
        good = stack.enter_context(GoodClient(target.plain_port))
        while target.connections > 1:
            good.work()
            assert time.monotonic() - idle_since_s < idle_ms / 1000 + 30
        closed_s = time.monotonic() - idle_since_s
        assert all(map(is_closed, sockets))
    print(
        f"{count} idle {kind} connections: {each_kib:.1f} KiB each, a new client is served after "
        f"{served_s:.2f} s, all are closed after {closed_s:.1f} s"
    )
    assert each_kib <= IDLE_KIB_MAX[kind]
    assert served_s < 1 or count == FEW


@pytest.mark.slow
@in_test_and_soak(slow=MANY)
def test_slow_connections(
    tmp_path: Path, certificates: Certificates, kind: str, count: int
) -> None:
    """A byte now and then: in the size of a frame, in a frame, in a handshake of TLS."""
    is_soak = count != FEW
    idle_s, pause_s = (60, 10.0) if is_soak else (3, 0.5)
    settings = {"connections.max.idle.ms": str(idle_s * 1000)}
    with attacked(tmp_path, certificates, settings) as target, contextlib.ExitStack() as stack:
        good = stack.enter_context(GoodClient(target.plain_port))
        before_ms, before_bytes = p99_ms(good), target.memory_bytes
        sockets = stack.enter_context(crowd(target.plain_port, count // 4 * 3))
        for sock in sockets[1::2]:
            sock.send(PRODUCE[:5000])
        slow = [
            Dripping(sockets[::2], PRODUCE),
            Dripping(sockets[1::2], PRODUCE[5000:]),
            Dripping(
                begun_handshakes(target, stack, count // 4), b"\x16\x03\x01\x02\x00\x01" * 100
            ),
        ]
        drip_at_s = time.monotonic()
        while any(map(len, slow)):
            good.work()
            if time.monotonic() >= drip_at_s:
                drip_at_s += pause_s
                for dripping in slow:
                    dripping.drip()
        each_kib = (target.memory_bytes - before_bytes) / count / KIB
        after_ms = good.p99_ms()
    latest_s = [max(dripping.closed_after_s) for dripping in slow]
    print(
        f"{count} slow connections: closed after {latest_s} s, {each_kib:.1f} KiB each, "
        f"p99={after_ms:.1f} ms idle={before_ms:.1f} ms"
    )
    assert max(latest_s) < max(idle_s, 10) + 2 * pause_s + 10
    assert not is_soak or after_ms <= 2 * before_ms


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["plain", "tls"])
def test_many_connects_a_second(tmp_path: Path, certificates: Certificates, kind: str) -> None:
    """Each is closed at once: others are served meanwhile, and a second storm leaves nothing."""
    settings = {"socket.listen.backlog.size": "1000"}
    with attacked(tmp_path, certificates, settings) as target, contextlib.ExitStack() as stack:
        good = stack.enter_context(GoodClient(target.plain_port))
        port = target.tls_port if kind == "tls" else target.plain_port
        before_ms = p99_ms(good)
        _, after_first_bytes = storm(target, good, port)
        told, after_second_bytes = storm(target, good, port)
        after_ms = good.p99_ms()
    grown_bytes = after_second_bytes - after_first_bytes
    print(
        f"{kind} connects: {told}, p99={after_ms:.1f} ms "
        f"idle={before_ms:.1f} ms, the second storm grew {grown_bytes / MIB:.1f} MiB"
    )
    assert grown_bytes < 4 * MIB


def storm(target: Target, good: GoodClient, port: int) -> tuple[str, int]:
    """A storm of connects; what it was like, and the broker's memory once all are gone."""
    command = [sys.executable, "-m", "tests.fuzz.storm", str(port), "5000", "10"]
    before_s, works_before = target.cpu_s, len(good.seconds)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while process.poll() is None:
            good.work()
        assert process.stdout is not None
        done = json.load(process.stdout)
    until(lambda: target.connections == 1, "nobody but the good client is connected")
    connects, us = done["connects"], 1_000_000
    told = (
        f"{connects / done['seconds']:.0f} a second, CPU of the broker "
        f"{(target.cpu_s - before_s) / connects * us:.0f} us each with "
        f"{(len(good.seconds) - works_before) / connects:.2f} of the good client's works, "
        f"of the clients {done['cpu_s'] / connects * us:.0f} us"
    )
    return told, target.memory_bytes


def begun_handshakes(
    target: Target, stack: contextlib.ExitStack, count: int
) -> list[socket.socket]:
    connections = [RawConnection(HOST, target.tls_port) for _ in range(count)]
    return [stack.enter_context(connection).socket for connection in connections]


@pytest.mark.slow
@in_test_and_soak(fetches=200, metadata=500)
def test_clients_that_never_read(
    tmp_path: Path, certificates: Certificates, kind: str, count: int
) -> None:
    """They ask for far more than the system takes; the broker keeps none of it."""
    settings = {"connections.max.idle.ms": "90000"}
    with attacked(tmp_path, certificates, settings) as target, contextlib.ExitStack() as stack:
        good = stack.enter_context(GoodClient(target.plain_port))
        for _ in range(50):
            good.write(bytes(900_000))
        before_ms, before_bytes = p99_ms(good), target.memory_bytes
        request = request_bytes(MetadataRequest(topics=None), 12)
        if kind == "fetches":
            everything = fetch_request(good.topic, max_bytes=50 * MIB, partition_max_bytes=50 * MIB)
            request = request_bytes(everything, 12)
        asked = 0
        for _ in range(count):
            # Each begins at once: this takes long, and who waits for its turn is idle.
            (sock,) = stack.enter_context(crowd(target.plain_port, 1))
            asked += stuff(sock, request)
            good.work()
        # On a busy machine the first ones are closed already.
        each_kib = (target.memory_bytes - before_bytes) / max(1, target.connections - 1) / KIB
        after_ms = p99_ms(good)
        while count != FEW and target.connections > 1:
            good.work()
    print(
        f"{count} clients asked for {asked} {kind} and read none: {each_kib:.1f} KiB each, "
        f"p99={after_ms:.1f} ms idle={before_ms:.1f} ms"
    )
    assert each_kib < UNREAD_KIB_MAX
