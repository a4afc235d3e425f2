"""Nothing is left of a server of tests, whenever a client comes, and whatever is done with it."""

import asyncio
import gc
import socket
import ssl
import sys
from contextlib import ExitStack, suppress

import pytest

from tests.support.awaiting import in_loop, turns
from tests.support.certificates import Certificates
from tests.support.tcp_server import HOST, Serve, TcpServer

TURNS_MAX = 6
"""After so many, a connection has come to the function and has had its answer."""


MUCH = bytes(10_000_000)


async def reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def leaves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """At once."""


async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def writes_much(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """More than the system keeps for a client that does not read."""
    writer.write(MUCH)


def complaints_of(server: TcpServer, turn_count: int, *, loop_ends: bool) -> list[str]:
    """Of Python, when clients have come in each turn of a loop until the server had stopped."""
    with ExitStack() as clients, pytest.MonkeyPatch.context() as patch:

        async def connect() -> None:
            with suppress(ConnectionRefusedError):
                while True:
                    clients.enter_context(socket.create_connection((HOST, server.port)))
                    await turns(1)

        async def main() -> None:
            async with server:
                connecting = asyncio.create_task(connect())
                await turns(turn_count)
            await connecting
            if not loop_ends:
                await turns()

        complaints: list[str] = []
        patch.setattr(sys, "unraisablehook", lambda found: complaints.append(str(found.exc_value)))
        asyncio.run(main())
        gc.collect()
        return complaints


@pytest.mark.parametrize("loop_ends", [True, False])
@pytest.mark.parametrize("serve", [reads, leaves, waits, writes_much])
def test_clients_that_come_at_the_last_moment(serve: Serve, loop_ends: bool) -> None:
    for turn_count in range(TURNS_MAX):
        assert complaints_of(TcpServer(serve), turn_count, loop_ends=loop_ends) == []


def test_handshakes_of_tls_that_begin_at_the_last_moment(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker.store)
    for turn_count in range(TURNS_MAX):
        server = TcpServer(reads, context=context)
        assert complaints_of(server, turn_count, loop_ends=True) == []


@in_loop
async def test_it_starts_again_at_its_port() -> None:
    server = TcpServer(leaves)
    for count in (1, 2):
        async with server:
            port = server.port
            reader, writer = await asyncio.open_connection(HOST, port)
            assert await reader.read() == b""
            writer.close()
        assert (server.port, len(server.connections)) == (port, count)


@in_loop
async def test_what_the_function_raises_is_raised_at_the_stop() -> None:
    async def fails(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(1) == b"a", "another byte"

    with pytest.raises(AssertionError, match="another byte"):
        async with TcpServer(fails) as server:
            reader, writer = await asyncio.open_connection(HOST, server.port)
            writer.write(b"b")
            assert await reader.read() == b""
            writer.close()
