"""The request for a token, and its answers, without a connection."""

import json
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.tokens.client_credentials import (
    ClientCredentials,
    OwnToken,
    TokenRefused,
    extensions_in,
    is_option,
)
from odradek.broker.tokens.fetch import parse_url
from odradek.broker.tokens.http_exchange import Answer, FetchFailed, HttpExchange
from odradek.broker.tokens.unsecured import BadOption
from tests.support.tokens import unsigned

OPTIONS = {"clientId": "broker", "clientSecret": "hunter2 ü/+", "scope": " read write "}
CLIENT = ClientCredentials.of(OPTIONS)


def test_the_request() -> None:
    headers = dict(CLIENT.headers)
    assert headers["Authorization"] == f"Basic {b64encode('broker:hunter2 ü/+'.encode()).decode()}"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert CLIENT.body == b"grant_type=client_credentials&scope=read+write"
    assert ClientCredentials("a", "b").body == b"grant_type=client_credentials"
    encoded = ClientCredentials.of({**OPTIONS, "clientId": "a:b"}, url_encodes=True)
    text = b64encode(b"a%3Ab:hunter2+%C3%BC%2F%2B").decode()
    assert dict(encoded.headers)["Authorization"] == f"Basic {text}"


def test_the_secret_is_not_shown() -> None:
    assert "hunter2" not in repr(CLIENT)


@pytest.mark.parametrize("missing", ["clientId", "clientSecret"])
def test_what_must_be_given(missing: str) -> None:
    for options in ({**OPTIONS, missing: " "}, {k: v for k, v in OPTIONS.items() if k != missing}):
        with pytest.raises(BadOption, match=f"^{missing} must be set"):
            ClientCredentials.of(options)


def test_options() -> None:
    assert all(is_option(name) for name in (*OPTIONS, "extension_a"))
    assert not any(is_option(name) for name in ("extension_", "clientid", "username"))
    assert extensions_in({**OPTIONS, "extension_a": "b"}) == {"a": "b"}


def token_in(status: int, body: object) -> str:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return CLIENT.token_in(Answer(status, data))


def test_an_answer_with_a_token() -> None:
    for status in (200, 201):
        assert token_in(status, {"access_token": " a.b.c ", "token_type": "Bearer"}) == "a.b.c"


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (400, b"", "answers with status 400$"),
        (401, {"error": "invalid_client"}, r"answers with status 401 \(invalid_client\)$"),
        (404, {"error": "a", "error_description": "b c"}, r"status 404 \(a: b c\)$"),
        (403, {"error": "a", "error_description": "b\nc"}, r"status 403 \(a\)$"),
        (403, {"error": {"a": 1}, "error_description": 7}, r"status 403 \(7\)$"),
        (302, b"<html>", "status 302$"),
        (204, b"", "status 204$"),
        (501, b"", "status 501$"),
        (505, b"", "status 505$"),
        (200, b"", "answers without an access_token$"),
        (200, b"[" * 100_000, "answers without an access_token$"),
        (200, ["access_token"], "answers without an access_token$"),
        (200, {"access_token": 7}, "answers without an access_token$"),
        (200, {"access_token": " "}, "answers without an access_token$"),
        (200, {"access_token": "a\x01b"}, "gives an access_token that is none$"),
        (200, {"access_token": "ü"}, "gives an access_token that is none$"),
    ],
)
def test_answers_that_stay_the_same(status: int, body: object, reason: str) -> None:
    with pytest.raises(TokenRefused, match=reason):
        token_in(status, body)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 599])
def test_answers_that_may_change(status: int) -> None:
    with pytest.raises(FetchFailed, match=f"answers with status {status}") as failed:
        token_in(status, b"")
    assert not isinstance(failed.value, TokenRefused)


@pytest.mark.parametrize(
    "shown", ["hunter2 ü/+", "hunter2+%C3%BC%2F%2B", CLIENT.headers[0][1].removeprefix("Basic ")]
)
def test_what_would_tell_the_secret_is_left_out(shown: str) -> None:
    for body in ({"error": shown}, {"error": "a", "error_description": f"not {shown}!"}):
        with pytest.raises(TokenRefused) as refused:
            token_in(401, body)
        assert shown not in str(refused.value)


def test_a_token() -> None:
    text = unsigned({"name": "broker", "iat": 1.5, "exp": 2})
    assert OwnToken.parse(text, "name") == (text, "broker", 1500, 2000)
    text = unsigned({"sub": "broker", "exp": 2})
    assert OwnToken.parse(text, "sub") == (text, "broker", None, 2000)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("opaque", "is not valid: its content is not JSON"),
        ("a.b.c", "is not valid: its content is not JSON"),
        (unsigned({"exp": 2}), "its claim sub is not the name of a user"),
        (unsigned({"sub": " ", "exp": 2}), "its claim sub is not the name of a user"),
        (unsigned({"sub": "broker"}), r"does not say when it ends \(claim exp\)"),
        (unsigned({"sub": "broker", "exp": "2"}), "its claim exp is not a time"),
        (unsigned({"sub": "broker", "exp": 2, "iat": {}}), "its claim iat is not a time"),
    ],
)
def test_tokens_that_are_none(text: str, reason: str) -> None:
    with pytest.raises(TokenRefused, match=reason):
        OwnToken.parse(text, "sub")


JSON: st.SearchStrategy[object] = st.one_of(
    st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from([None, [{}]])
)
NAMES = st.sampled_from(["access_token", "error", "error_description", "sub", "iat", "exp"])


@given(st.sampled_from([200, 400, 500]), st.binary() | st.dictionaries(NAMES, JSON))
def test_any_answer_has_a_token_or_fails(status: int, body: object) -> None:
    try:
        assert token_in(status, body).isprintable()
    except FetchFailed as failed:
        assert str(failed).isprintable()


@given(st.text() | st.dictionaries(NAMES, JSON).map(unsigned))
def test_any_token_is_understood_or_refused(text: str) -> None:
    try:
        OwnToken.parse(text, "sub")
    except TokenRefused as refused:
        assert str(refused).isprintable()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"


@given(st.lists(st.binary(min_size=1) | st.sampled_from([HEAD, b"\r\n", b"abc"]), max_size=5))
def test_any_bytes_are_an_answer_or_none(parts: list[bytes]) -> None:
    exchange = HttpExchange(parse_url("http://h/"))
    try:
        for part in (*parts, b""):
            if exchange.receive(part) is not None:
                return
    except FetchFailed as failed:
        assert str(failed).isprintable()
        return
    raise AssertionError("its end was not noticed")
