"""Where keys come from: files and web servers, good and bad ones, at the start and later."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from odradek.broker.runtime import Runtime
from odradek.broker.slow_reads import SlowReads
from odradek.broker.tokens import fetch as fetching
from odradek.broker.tokens.fetch import fetch, parse_url
from odradek.broker.tokens.http_exchange import SIZE_BYTES_MAX, FetchFailed
from odradek.broker.tokens.keys import BadKeys
from odradek.broker.tokens.refresh import COOL_DOWN_MS, Pauses, RefreshedKeys
from tests.support.awaiting import in_background, in_loop, turns, until
from tests.support.certificates import Certificates
from tests.support.tcp_server import HOST, TcpServer
from tests.support.tokens import jwk, jwks

OLD, NEW = jwks(jwk("ES256")), jwks(jwk("ES256-new"))


async def get(url: str, context: ssl.SSLContext | None = None) -> bytes:
    return await fetch(parse_url(url), context, SlowReads(Runtime.system()))


def answer(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


@asynccontextmanager
async def web_server(
    *answers: bytes, context: ssl.SSLContext | None = None, hangs: bool = False
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Answers one connection after the other, the last one again and again; what it was asked."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answers[min(len(asked), len(answers)) - 1])
        if hangs:
            await reader.read()

    async with TcpServer(serve, context=context) as server:
        yield server.port, asked


@in_loop
async def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a b.json"
    file.write_bytes(OLD)
    assert await get(f"file://{tmp_path}/a%20b.json") == OLD
    assert await get(f"file://localhost{tmp_path}/a%20b.json") == OLD
    with pytest.raises(FetchFailed, match="cannot be read: No such file"):
        await get(f"file://{tmp_path}/none")
    with pytest.raises(FetchFailed, match="is not a file"):
        await get("file:///dev/zero")
    file.write_bytes(bytes(SIZE_BYTES_MAX + 1))
    with pytest.raises(FetchFailed, match="is larger than"):
        await get(f"file://{tmp_path}/a%20b.json")


@in_loop
async def test_a_web_server() -> None:
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )
    async with web_server(answer(OLD), chunked, b"HTTP/1.0 200 OK\r\n\r\nall") as (port, asked):
        assert await get(f"http://{HOST}:{port}/keys?a=b") == OLD
        assert await get(f"http://{HOST}:{port}") == b"abcde"
        assert await get(f"http://{HOST}:{port}") == b"all"
    assert asked[0].startswith(b"GET /keys?a=b HTTP/1.1\r\n")
    assert f"Host: {HOST}:{port}\r\n".encode() in asked[0]
    assert asked[1].startswith(b"GET / HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (answer(b"", "404 Not Found"), "answers with status 404"),
        (answer(b"", "302 Found", "Location: file:///etc/passwd\r\n"), "answers with status 302"),
        (b"SSH-2.0-x\r\n\r\n", "does not speak HTTP"),
        (b"", "hangs up before it has answered$"),
        (answer(b"abc")[:-1], "hangs up before it has answered$"),
        (answer(bytes(SIZE_BYTES_MAX + 1)), "is larger than"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200_000, "does not speak HTTP"),
    ],
    ids=range(7),
)
@in_loop
async def test_a_web_server_that_does_not_serve(data: bytes, reason: str) -> None:
    async with web_server(data) as (port, _):
        with pytest.raises(FetchFailed, match=reason):
            await get(f"http://{HOST}:{port}/")


@in_loop
async def test_a_web_server_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "TIMEOUT_S", 0.05)
    async with web_server(b"HTTP/1.1 200 OK\r\n", hangs=True) as (port, _):
        with pytest.raises(FetchFailed, match="does not answer within"):
            await get(f"http://{HOST}:{port}/")
    with pytest.raises(FetchFailed, match="cannot be reached"):
        await get(f"http://{HOST}:{port}/")


@in_loop
async def test_who_may_serve_over_tls(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker.store)
    trusting = ssl.create_default_context(cafile=certificates.trust)
    async with web_server(answer(OLD), context=context) as (port, _):
        assert await get(f"https://{HOST}:{port}/", trusting) == OLD
        with pytest.raises(FetchFailed, match="certificate that is refused: unable to get"):
            await get(f"https://{HOST}:{port}/", ssl.create_default_context())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "keys.json",
        "/keys.json",
        "ftp://h/keys",
        "http:///keys",
        "https://user@h/keys",
        "http://h:0/keys",
        "http://h:99999/keys",
        "http://h/a b",
        "http://h/\r\nX: y",
        "http://h/ü",
        "file://h/keys",
        "file:keys",
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ValueError):
        parse_url(url)


class Provider:
    """What keys are read from, and how often they were."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.count = 0
        self.now_ms = 0

    async def fetch(self) -> bytes:
        self.count += 1
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if found is None:
            raise FetchFailed("is not there")
        return found

    def keys(self, refresh_ms: int = 1_000_000) -> RefreshedKeys:
        pauses = Pauses(refresh_ms, retry_ms=1, retry_ms_max=3)
        return RefreshedKeys("http://h", self.fetch, pauses, lambda: self.now_ms)


@in_loop
async def test_an_unknown_key_has_the_keys_read_again_but_not_often() -> None:
    provider = Provider(OLD, NEW)
    keys = provider.keys()
    await keys.read()
    async with in_background(keys.refresh_forever()):
        assert keys.find("ES256", "ES256")
        assert keys.find("ES256", "ES256-new") is None  # too soon
        provider.now_ms = COOL_DOWN_MS
        assert keys.find("RS256", "ES256") is None  # known, of another kind
        assert keys.find("RS256", None) is None
        await asyncio.sleep(0)
        assert provider.count == 1
        for number in range(100):
            assert keys.find("ES256", f"unknown {number}") is None
        await until(lambda: keys.find("ES256", "ES256-new") is not None, "the new key is known")
        assert keys.find("ES256", "ES256") is None
        await turns(10)
        assert provider.count == 2


@in_loop
async def test_keys_are_read_again_when_it_is_time(caplog: pytest.LogCaptureFixture) -> None:
    provider = Provider(OLD, None, b"nonsense", NEW)
    keys = provider.keys(refresh_ms=1)
    await keys.read()
    async with in_background(keys.refresh_forever()):
        await until(lambda: keys.find("ES256", "ES256-new") is not None, "the new key is known")
    assert provider.count >= 4


@in_loop
async def test_old_keys_stay_if_there_are_no_new_ones(caplog: pytest.LogCaptureFixture) -> None:
    provider = Provider(OLD, None)
    keys = provider.keys(refresh_ms=1)
    await keys.read()
    with pytest.raises(FetchFailed):
        await keys.read()

    def moves_on() -> bool:
        provider.now_ms += 5
        return "keys of tokens not read url=http://h error=is not there" in caplog.text

    async with in_background(keys.refresh_forever()):
        await until(moves_on, "it is given up")
    assert keys.find("ES256", "ES256")


@in_loop
async def test_bad_keys() -> None:
    with pytest.raises(BadKeys):
        await Provider(b"{}").keys().read()
