"""Asking a token endpoint over a real connection, which may be a bad one."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from odradek.broker.tokens.client_credentials import ClientCredentials, TokenRefused
from odradek.broker.tokens.endpoint import SIZE_BYTES_MAX, TokenEndpoint
from odradek.broker.tokens.fetch import parse_url
from odradek.broker.tokens.http_exchange import FetchFailed
from tests.support.certificates import Certificates
from tests.support.identity_provider import HOST, IdentityProvider, serving

CLIENT = ClientCredentials("broker", "hunter2", "read")


def endpoint(url: str, **more: Any) -> TokenEndpoint:
    given: dict[str, Any] = {
        "credentials": CLIENT,
        "context": None,
        "user_claim": "sub",
        "connect_timeout_s": 10,
        "answer_timeout_s": 10,
        "now_s": time.monotonic,
    }
    return TokenEndpoint(url=parse_url(url), **{**given, **more})


def test_a_token() -> None:
    provider = IdentityProvider({"broker": "hunter2"})
    with serving(provider):
        token = endpoint(provider.token_url).fetch()
        assert token.user == "broker"
        assert 59_000 < token.expires_ms - (token.issued_ms or 0) < 61_000
        (asked,) = provider.asked
        assert asked.form == {"grant_type": ["client_credentials"], "scope": ["read"]}
        assert asked.headers["accept"] == "application/json"
        wrong = endpoint(provider.token_url, credentials=ClientCredentials("broker", "hunter3"))
        with pytest.raises(TokenRefused, match=r"answers with status 401 \(invalid_client\)"):
            wrong.fetch()
        with pytest.raises(TokenRefused, match="its claim name is not the name of a user"):
            endpoint(provider.token_url, user_claim="name").fetch()


def test_over_tls(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker.store)
    trusting = ssl.create_default_context(cafile=certificates.trust)
    provider = IdentityProvider({"broker": "hunter2"})
    with serving(provider, context):
        assert endpoint(provider.token_url, context=trusting).fetch().user == "broker"
        with pytest.raises(FetchFailed, match="certificate that is refused: unable to get"):
            endpoint(provider.token_url, context=ssl.create_default_context()).fetch()
        assert len(provider.asked) == 1


@contextmanager
def peer(data: bytes, *, hangs: bool = False) -> Iterator[str]:
    """What accepts one connection, sends this, and then hangs up unless it `hangs`; its URL."""
    ends = threading.Event()

    def serve() -> None:
        with closing(server.accept()[0]) as connection:
            connection.recv(1 << 16)
            try:
                connection.sendall(data)
            except OSError:
                return  # it has heard enough
            if hangs:
                ends.wait(30)

    with socket.create_server((HOST, 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://{HOST}:{server.getsockname()[1]}/"
        ends.set()
        thread.join()


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "hangs up before it has answered$"),
        (b"SSH-2.0-x\r\n\r\n", "does not speak HTTP: illegal status line$"),
        (OK + b"Content-Length: 9\r\n\r\nabc", "hangs up before it has answered$"),
        (OK + b"\r\n" + bytes(SIZE_BYTES_MAX + 1), f"larger than {SIZE_BYTES_MAX} bytes"),
        (OK + b"A: " + b"x" * 200_000, "does not speak HTTP"),
    ],
)
def test_what_is_none(data: bytes, reason: str) -> None:
    with peer(data) as url, pytest.raises(FetchFailed, match=reason):
        endpoint(url).fetch()


@pytest.mark.parametrize("data", [b"", OK, OK + b"Content-Length: 9\r\n\r\nabc"])
def test_one_that_does_not_answer(data: bytes) -> None:
    with peer(data, hangs=True) as url, pytest.raises(FetchFailed) as failed:
        endpoint(url, answer_timeout_s=0.05).fetch()
    assert str(failed.value) == "does not connect and answer within 10 and 0.05 s"


def test_one_that_answers_in_many_parts_has_no_more_time() -> None:
    times_s = iter([0.0, 0.0, 9.0, 10.0])  # before the request, the first and the second part
    with peer(OK, hangs=True) as url, pytest.raises(FetchFailed, match="does not connect and ans"):
        endpoint(url, now_s=lambda: next(times_s)).fetch()


def test_nobody_there() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(FetchFailed, match="cannot be reached: Connection refused"):
        endpoint(f"http://{HOST}:{port}/").fetch()
