"""Bytes of clients over a link that is cut or slow."""

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import AsyncIterator, Callable

import pytest

from odradek.broker.net.detour import LANE_BYTES_MAX, Detour
from odradek.broker.network.conditions import GOOD, Condition
from odradek.broker.network.network import Link
from tests.broker.coordination.asynchronous import asynchronous
from tests.support.awaiting import pass_over, turns, until

CUT = Condition(is_cut=True)
MIB = 1 << 20
LASTS_S = 0.002
"""For how long a link stays as it is."""


class Ends:
    """A client and a connection, with a detour between them."""

    def __init__(self, condition: Condition) -> None:
        self.client, client_end = socket.socketpair()
        self.connection, connection_end = socket.socketpair()
        self.has_ended = False
        self.link = Link(condition)
        for each in (self.client, self.connection):
            each.setblocking(False)
        self.detour = Detour(client_end, connection_end, self.link, self._on_end)

    def _on_end(self) -> None:
        assert not self.has_ended
        self.has_ended = True


@contextlib.asynccontextmanager
async def ends(condition: Condition) -> AsyncIterator[Ends]:
    made = Ends(condition)
    try:
        yield made
    finally:
        made.detour.close()
        assert made.has_ended
        assert not made.link._users
        made.client.close()
        made.connection.close()


async def receive(sock: socket.socket, size_bytes: int) -> bytes:
    loop, received = asyncio.get_running_loop(), bytearray()
    while len(received) < size_bytes:
        data = await loop.sock_recv(sock, MIB)
        assert data
        received += data
    return bytes(received)


def is_silent(sock: socket.socket) -> bool:
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    return False


@pytest.mark.slow
@asynchronous
async def test_all_bytes_arrive_in_order_whatever_the_link_becomes() -> None:
    chance = random.Random(7)
    sent = chance.randbytes(4 * MIB)
    loop = asyncio.get_running_loop()
    conditions = [GOOD, CUT, Condition(delay_s=0.01), Condition(bytes_per_s=50 * MIB)]
    async with ends(GOOD) as both:
        for source, sink in ((both.client, both.connection), (both.connection, both.client)):
            sending = asyncio.create_task(loop.sock_sendall(source, sent))
            receiving = asyncio.create_task(receive(sink, len(sent)))
            for _ in range(20):
                both.link.become(chance.choice(conditions))
                await asyncio.sleep(LASTS_S)
            both.link.become(GOOD)
            await sending
            assert await receiving == sent


@asynchronous
async def test_nothing_passes_a_cut_link_and_little_is_held() -> None:
    async with ends(CUT) as both:
        count = 0
        for _ in range(200):  # until nothing more can be sent, long before
            with contextlib.suppress(BlockingIOError):
                count += both.client.send(bytes(MIB))
            await asyncio.sleep(0)
        held_bytes = both.detour._lanes[0]._held_bytes
        assert LANE_BYTES_MAX <= held_bytes < LANE_BYTES_MAX + (1 << 16) < count
        both.connection.send(b"answer")
        await turns()
        assert is_silent(both.client)
        assert is_silent(both.connection)
        both.link.become(GOOD)
        assert await receive(both.client, 6) == b"answer"
        await receive(both.connection, count)


@asynchronous
async def test_requests_on_the_way_are_late_together() -> None:
    async with ends(Condition(delay_s=30)) as both:
        for number in range(5):
            both.client.send(b"%d" % number)
            await pass_over(1)
        assert is_silent(both.connection)
        await pass_over(30)
        # If each were late after the one before it, only the first would be here.
        assert both.connection.recv(MIB) == b"01234"


@asynchronous
async def test_answers_on_a_link_whose_requests_are_late_are_not() -> None:
    async with ends(Condition(delay_s=3600)) as both:
        both.client.send(b"request")
        both.connection.send(b"answer")
        assert await receive(both.client, 6) == b"answer"
        assert is_silent(both.connection)


@pytest.mark.slow
@asynchronous
async def test_a_rate_is_kept_in_both_directions() -> None:
    async with ends(Condition(bytes_per_s=500_000)) as both:
        begun_s = time.monotonic()
        both.client.send(bytes(100_000))
        both.connection.send(bytes(100_000))
        await asyncio.gather(receive(both.connection, 100_000), receive(both.client, 100_000))
        assert time.monotonic() - begun_s >= 0.15


@asynchronous
async def test_an_end_arrives_after_what_was_sent_before_it() -> None:
    for delay_s in (0.0, 0.05):
        async with ends(Condition(delay_s=delay_s)) as both:
            both.client.send(b"last")
            both.client.shutdown(socket.SHUT_WR)
            loop = asyncio.get_running_loop()
            assert await receive(both.connection, 4) == b"last"
            assert await loop.sock_recv(both.connection, 1) == b""
            both.connection.send(b"answer")  # the client still listens
            both.connection.close()
            assert await receive(both.client, 6) == b"answer"
            assert await loop.sock_recv(both.client, 1) == b""
            assert both.has_ended


@pytest.mark.parametrize("end", [Detour.close, Detour.reset])
def test_a_client_that_goes_while_the_link_is_cut_has_sent_in_vain(
    end: Callable[[Detour], None],
) -> None:
    @asynchronous
    async def test() -> None:
        async with ends(CUT) as both:
            both.client.send(b"in vain")
            both.client.close()
            await until(lambda: both.has_ended)
            assert both.connection.recv(1) == b""
            end(both.detour)

    test()
