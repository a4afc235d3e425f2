"""The admin API's HTTP: what is answered, what is refused, and what hostile clients achieve."""

import asyncio
import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.admin_api import http, requests
from odradek.broker.admin_api import server as server_module
from odradek.broker.admin_api.routes import Route
from odradek.broker.admin_api.schemas import STRING
from odradek.broker.admin_api.server import AdminServer
from odradek.broker.server import StartupError
from odradek.broker.settings.admin import AdminAddress
from tests.broker.admin_api.asking import Reply, ask, connect, reply_in, send, served
from tests.broker.coordination.asynchronous import asynchronous
from tests.support.awaiting import until

START = "/admin/v1/brokers/1/start"


def refused(reply: Reply) -> tuple[int, str]:
    assert list(reply.content) == ["error"]
    return reply.status, reply.content["error"]


@asynchronous
async def test_a_route_answers_json() -> None:
    async with served() as server:
        reply = await ask(server)
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.content["openapi"] == "3.1.0"


@asynchronous
async def test_a_connection_serves_requests_one_after_the_other_also_if_sent_at_once() -> None:
    one = b"GET /admin/v1/brokers HTTP/1.1\r\nHost: localhost\r\n"
    async with served() as server:
        reader, writer = await connect(server)
        writer.write(one + b"\r\n" + one + b"Connection: close\r\n\r\n")
        data = await reader.read()
        writer.close()
    assert data.count(b"HTTP/1.1 200 OK") == 2


@asynchronous
async def test_an_upgrade_to_http_2_is_ignored() -> None:
    """Java's client proposes it in its first request."""
    headers = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AA"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    one = f"GET /admin/v1/brokers HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode()
    two = b"GET /admin/v1/brokers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with served() as server:
        reader, writer = await connect(server)
        writer.write(one)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.write(two)
        assert b"HTTP/1.1 200 OK" in await reader.read()
        writer.close()


@asynchronous
async def test_a_client_that_waits_for_it_is_told_to_go_on() -> None:
    async with served() as server:
        reader, writer = await connect(server)
        writer.write(
            f"POST {START} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n".encode()
        )
        assert (await reader.readline()).startswith(b"HTTP/1.1 100")
        writer.write(b"{}")
        assert b"404 Not Found" in await reader.read()
        writer.close()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/admin/v1", 404),
        ("GET", "/admin/v1/brokers/", 404),
        ("GET", "/admin/v1//brokers", 404),
        ("GET", "/admin/v1/brokers/%ff/stop", 404),
        ("GET", "/admin/v1/../v1/brokers", 404),
        ("GET", "http://localhost/admin/v1/brokers", 404),
        ("DELETE", "/admin/v1/brokers", 405),
        ("OPTIONS", "/admin/v1/brokers", 405),
        ("GET", START, 405),
    ],
)
@asynchronous
async def test_what_is_no_route_is_refused(method: str, path: str, status: int) -> None:
    async with served() as server:
        reply = await ask(server, method, path)
    assert refused(reply)[0] == status
    assert ("Allow" in reply.headers) == (status == 405)
    assert not [name for name in reply.headers if name.lower().startswith("access-control")]


@asynchronous
async def test_head_has_no_body() -> None:
    async with served() as server:
        reply = await ask(server, "HEAD", "/admin/v1/brokers")
    assert (reply.status, reply.content) == (405, None)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "the body is not JSON"),
        (b"\xff", "the body is not JSON"),
        (b"[1]", "the body is not a JSON object"),
        (b'{"a":1,"a":1}', "an object has a key twice"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":1}', "'a' is not a field"),
        (b'{"\\ud800":1}', "is not a field"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"a":' * 100_000, "it is nested too deeply"),
        (b'{"a":' + b"9" * 10_000 + b"}", "the body is not JSON"),
    ],
    ids=range(10),
)
@asynchronous
async def test_a_bad_body_is_refused(body: bytes, sentence: str) -> None:
    async with served() as server:
        status, error = refused(await ask(server, "POST", START, body=body))
    assert status == 400
    assert sentence in error
    assert len(error) < 300


@asynchronous
async def test_a_get_has_no_body_and_a_post_no_query() -> None:
    async with served() as server:
        assert refused(await ask(server, body=b"{}"))[0] == 400
        assert refused(await ask(server, "POST", f"{START}?a=1"))[0] == 400
        assert refused(await ask(server, "GET", "/admin/v1/brokers?a=1"))[0] == 400


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded"])
@asynchronous
async def test_a_post_needs_the_content_type_that_no_page_can_send(content_type: str) -> None:
    async with served() as server:
        reply = await ask(server, "POST", START, headers={"Content-Type": content_type})
    assert refused(reply) == (415, "this needs the header Content-Type: application/json")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
@asynchronous
async def test_a_page_whose_name_resolves_to_this_machine_is_refused(host: str) -> None:
    async with served() as server:
        assert (await ask(server, headers={"Host": host})).status in (400, 403)


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST", "127.0.0.1", "127.9.9.9:80", "[::1]"])
@asynchronous
async def test_names_of_this_machine_are_accepted(host: str) -> None:
    async with served() as server:
        assert (await ask(server, headers={"Host": host})).status == 200


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret", "é"],
)
@asynchronous
async def test_without_the_token_nothing_is_answered(authorization: str) -> None:
    async with served(token="secret") as server:
        reply = await ask(server, path="/nosuch", headers={"Authorization": authorization})
        assert refused(reply)[0] == 401
        assert reply.headers["WWW-Authenticate"].startswith("Bearer")
        right = {"Authorization": "bearer secret"}
        assert (await ask(server, headers=right)).status == 200


@asynchronous
async def test_the_body_of_a_stranger_is_not_read() -> None:
    async with served(token="secret") as server:
        headers = {"Content-Length": str(1 << 40)}
        assert refused(await ask(server, "POST", START, headers=headers))[0] == 401


@asynchronous
async def test_a_large_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_BYTES_MAX", 1000)
    async with served() as server:
        assert refused(await ask(server, "POST", START, body=b" " * 1001))[0] == 413
        chunked = b"3e9\r\n" + b" " * 1001 + b"\r\n0\r\n\r\n"
        head = f"POST {START} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        reply = await send(server, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunked)
        assert refused(reply)[0] == 413


@asynchronous
async def test_large_headers_are_refused() -> None:
    async with served() as server:
        headers = {"X": "x" * 4 * http.HEAD_BYTES_MAX}
        assert refused(await ask(server, headers=headers))[0] == 431


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\x1e\0\x12\0\3\0\0\0\0\0\4test\r\n\r\n",  # a client of Kafka
        b"\x16\x03\x01\x02\x00\r\n\r\n",  # of TLS
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n",
    ],
)
@asynchronous
async def test_what_is_not_http_is_refused(data: bytes) -> None:
    async with served() as server:
        assert refused(await send(server, data))[0] in (400, 505)


@pytest.mark.slow
@asynchronous
async def test_a_slow_request_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REQUEST_S", 0.05)
    async with served() as server:
        for begin in (b"GET", f"POST {START} HTTP/1.1\r\nHost: localhost\r\n".encode()):
            reader, writer = await connect(server)
            writer.write(begin)
            assert refused(reply_in(await reader.read()))[0] == 408
            writer.close()


@asynchronous
async def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_S", 0.01)
    async with served() as server:
        reader, writer = await connect(server)
        assert await reader.read() == b""
        writer.close()


@asynchronous
async def test_a_client_that_hangs_up_leaves_nothing() -> None:
    async with served() as server:
        for data in (b"", b"GET /", b"POST /admin/v1/brokers/1/start HTTP/1.1\r\n"):
            _, writer = await connect(server)
            writer.write(data)
            writer.transport.abort()
        assert (await ask(server)).status == 200
        await until(lambda: not len(server._tasks), "all connections have ended")


@asynchronous
async def test_the_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS_MAX", 2)
    async with served() as server:
        open_ones = [await connect(server) for _ in range(2)]
        assert refused(await ask(server))[0] == 503
        for _, writer in open_ones:
            writer.close()
        async with asyncio.timeout(10):
            while (await ask(server)).status == 503:
                pass


@pytest.mark.parametrize("aborts", [True, False])
@pytest.mark.parametrize(("method", "is_done"), [("GET", False), ("POST", True)])
@asynchronous
async def test_what_only_looks_ends_with_its_client_and_a_change_is_completed(
    method: str, is_done: bool, aborts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait(*_: object) -> str:
        begun.set()
        await may_end.wait()
        done.set()
        return ""

    monkeypatch.setattr(requests, "find", lambda *_: (Route(method, "/wait", wait, STRING), {}))
    head = f"{method} / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    async with served() as server:
        _, writer = await connect(server)
        writer.write(f"{head}Content-Length: 0\r\n\r\n".encode())
        await begun.wait()
        if aborts:
            writer.transport.abort()
        else:
            writer.close()
        if is_done:
            may_end.set()
        await until(lambda: not len(server._tasks), "the connection has ended")
    assert done.is_set() == is_done


@asynchronous
async def test_a_next_request_may_arrive_during_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = asyncio.Event()

    async def wait(*_: object) -> str:
        await arrived.wait()
        return "waited"

    monkeypatch.setattr(requests, "find", lambda *_: (Route("GET", "/wait", wait, STRING), {}))
    one = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    async with served() as server:
        reader, writer = await connect(server)
        writer.write(one + b"\r\n")
        await until(lambda: len(server._tasks), "it is connected")
        writer.write(one + b"Connection: close\r\n\r\n")
        await writer.drain()
        arrived.set()
        assert (await reader.read()).count(b'"waited"') == 2
        writer.close()


@asynchronous
async def test_an_answer_is_sent_to_its_end_before_the_connection_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = Route("GET", "/large", lambda *_: "x" * 300_000, STRING)
    monkeypatch.setattr(requests, "find", lambda *_: (large, {}))
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with served() as server:
        assert server._server is not None
        for listening in server._server.sockets:  # what it accepts inherits this
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        assert len((await send(server, request)).content) == 300_000


@pytest.mark.slow
@asynchronous
async def test_an_answer_that_nobody_takes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_S", 0.05)
    large = Route("GET", "/large", lambda *_: "x" * (16 << 20), STRING)
    monkeypatch.setattr(requests, "find", lambda *_: (large, {}))
    async with served() as server:
        _, writer = await connect(server)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: len(server._tasks), "it is connected")
        await until(lambda: not len(server._tasks), "it has been given up")
        writer.close()


@asynchronous
async def test_a_bug_is_told_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        @property
        def broker_ids(self) -> Any:
            raise RuntimeError("oh")

    async with served(running=Broken()) as server:
        status, error = refused(await ask(server, path="/admin/v1/brokers"))
    assert (status, "oh" in error) == (500, True)
    assert "Traceback" in caplog.text


@asynchronous
async def test_a_port_that_is_taken_is_one_sentence() -> None:
    async with served() as server:
        port = server.address.port
        with pytest.raises(StartupError, match=rf"can't listen on 127\.0\.0\.1:{port}: Address"):
            await AdminServer(server.address, "", server._controls).open()


@asynchronous
async def test_a_unix_socket_is_the_users_own_and_goes_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    address = AdminAddress(path=str(path))
    async with served(address=address) as server:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert (await ask(server, headers={"Host": "whatever"})).status == 200
        with pytest.raises(StartupError, match="in use"):
            await AdminServer(address, "", server._controls).open()
        assert (await ask(server)).status == 200
    assert not path.exists()


@asynchronous
async def test_a_unix_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with served(address=AdminAddress(path=str(path))) as server:
        assert (await ask(server)).status == 200


@asynchronous
async def test_a_file_is_not_replaced_by_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(json.dumps("mine"))
    with pytest.raises(StartupError):
        async with served(address=AdminAddress(path=str(path))):
            pass
    assert path.exists()


@pytest.mark.slow
@given(st.integers(0, 250), st.binary(max_size=30), st.integers(0, 30))
def test_a_damaged_request_is_answered_or_the_connection_ends(
    position: int, bytes_instead: bytes, count: int
) -> None:
    whole = (
        f"POST {START} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        'Transfer-Encoding: chunked\r\n\r\n6\r\n{"a":1\r\n1\r\n}\r\n0\r\n\r\n'
    ).encode()
    damaged = whole[:position] + bytes_instead + whole[position + count :]

    async def exchange() -> bytes:
        async with served() as server:
            reader, writer = await connect(server)
            writer.write(damaged)
            writer.write_eof()
            data = await reader.read()
            writer.close()
            assert (await ask(server)).status == 200
            return data

    answer = asyncio.run(exchange())
    assert not answer or answer.startswith(b"HTTP/1.1 ")
    assert b"HTTP/1.1 500" not in answer
