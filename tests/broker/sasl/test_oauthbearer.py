"""The conversation of OAUTHBEARER, for a server."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.sasl.client import ServerRefused
from odradek.broker.sasl.client_oauthbearer import OAuthBearerClient
from odradek.broker.sasl.login import Login, LoginFailed, Offer
from odradek.broker.sasl.mechanism import LoginRefused
from odradek.broker.sasl.oauthbearer import ABORT, BadMessage, ClientFirst
from odradek.broker.sasl.oauthbearer_server import OAuthBearerServer
from odradek.broker.tokens.token import InvalidToken, Token
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.k36_sasl_authenticate import SaslAuthenticateResponse

NOW_MS = 5_000


def validate(text: str, now_ms: int) -> Token:
    assert now_ms == NOW_MS
    if text == "scope":
        raise InvalidToken("a scope is missing", scope="[a, b]")
    if not text.startswith("good-"):
        raise InvalidToken("it is bad")
    return Token(text.removeprefix("good-"), NOW_MS + 700)


def server() -> OAuthBearerServer:
    return OAuthBearerServer(validate, lambda: NOW_MS)


def test_a_good_token() -> None:
    machine = server()
    assert machine.step(b"n,,\x01auth=Bearer good-alice\x01\x01") == b""
    assert machine.is_complete
    assert (machine.user, machine.expires_ms) == ("alice", NOW_MS + 700)


@pytest.mark.parametrize(
    ("message", "token", "authzid", "extensions"),
    [
        (b"n,,\x01auth=Bearer x\x01\x01", "x", "", {}),
        (b"n,,\x01auth=bEARER   x.y-_\x01\x01", "x.y-_", "", {}),
        (b"n,,\x01auth=Bearer x+/~==\x01\x01", "x+/~==", "", {}),
        (b"n,a=me,\x01auth=Bearer x\x01\x01", "x", "me", {}),
        (b"n,a=me=2C=3D,\x01auth=Bearer x\x01\x01", "x", "me=2C=3D", {}),
        (b"n,,\x01a=1\x01auth=Bearer x\x01b=c=d\t\x01\x01", "x", "", {"a": "1", "b": "c=d\t"}),
        (b"n,,\x01auth=y\x01auth=Bearer x\x01\x01", "x", "", {}),
    ],
)
def test_first_messages(
    message: bytes, token: str, authzid: str, extensions: dict[str, str]
) -> None:
    assert ClientFirst.parse(message) == (token, authzid, extensions)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        ABORT,
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"p=x,,\x01auth=Bearer x\x01\x01",
        b"n,a=,\x01auth=Bearer x\x01\x01",
        b"n,a=b=c,\x01auth=Bearer x\x01\x01",
        "n,a=ü,\x01auth=Bearer x\x01\x01".encode(),
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearerx\x01\x01",
        b"n,,\x01auth=Bearer x=x\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01Auth=Bearer x\x01\x01",
        b"n,,\x01a1=b\x01auth=Bearer x\x01\x01",
        b"n,,\x01a=\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\x01\x01\x01",
        b"n,,\x01auth=Bearer x\x01\x01\n",
    ],
)
def test_messages_that_break_the_rules(message: bytes) -> None:
    with pytest.raises(BadMessage):
        ClientFirst.parse(message)
    with pytest.raises(LoginRefused) as refused:
        server().step(message)
    assert refused.value.shown is None


WORDS = st.from_regex(r"[-_.a-zA-Z0-9]+", fullmatch=True)
EXTENSIONS = st.dictionaries(
    st.from_regex(r"[A-Za-z]+", fullmatch=True).filter(lambda name: name != "auth"),
    st.from_regex(r"[\x21-\x7e \t\r\n]+", fullmatch=True),
)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.builds(ClientFirst, WORDS, st.just("") | WORDS, EXTENSIONS))
def test_what_a_client_sends_is_what_a_server_reads(first: ClientFirst) -> None:
    assert ClientFirst.parse(first.encode()) == first


@settings(max_examples=40)
@given(st.binary())
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(LoginRefused):
        server().step(data)


@pytest.mark.parametrize(
    ("token", "error"),
    [
        ("bad", '{"status":"invalid_token"}'),
        ("scope", '{"status":"insufficient_scope", "scope":"[a, b]"}'),
    ],
)
def test_a_bad_token_is_answered_before_the_login_fails(token: str, error: str) -> None:
    login = begun()
    answer = login.on_token(ClientFirst(token).encode(), now_ms=1, wall_ms=NOW_MS)
    assert (answer.error_code, answer.auth_bytes) == (0, error.encode())
    assert login.session is None
    assert login.refusal
    with pytest.raises(LoginFailed) as failed:
        login.on_token(ABORT, now_ms=1, wall_ms=NOW_MS)
    assert isinstance(failed.value.answer, SaslAuthenticateResponse)
    assert failed.value.answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert failed.value.answer.error_message == error
    assert not login.refusal


def test_another_token_may_be_shown_after_an_error() -> None:
    machine = server()
    machine.step(ClientFirst("bad").encode())
    assert machine.step(ClientFirst("scope").encode()) != b""
    assert not machine.is_complete
    assert machine.step(ClientFirst("good-alice").encode()) == b""
    assert machine.is_complete
    assert not machine.refusal
    other = server()
    other.step(ClientFirst("bad").encode())
    with pytest.raises(LoginRefused) as refused:
        other.step(ABORT * 2)
    assert refused.value.shown is None


def test_an_authorization_id_must_be_the_user() -> None:
    machine = server()
    assert machine.step(ClientFirst("good-alice", "alice").encode()) == b""
    with pytest.raises(LoginRefused) as refused:
        server().step(ClientFirst("good-alice", "b\nb").encode())
    assert refused.value.shown is not None
    assert refused.value.shown.endswith(
        "(b\nb) that is different from the token's principal name (alice)"
    )
    assert "\n" not in refused.value.reason  # it is logged


def test_a_session_ends_with_its_token() -> None:
    login = begun()
    answer = login.on_token(ClientFirst("good-alice").encode(), now_ms=100, wall_ms=NOW_MS)
    assert answer.session_lifetime_ms == 700
    assert login.session is not None
    assert (login.session.user, login.session.ends_ms) == ("alice", 800)


def test_both_sides_agree() -> None:
    client, machine = OAuthBearerClient("good-alice", {"a": "b"}), server()
    assert client.step(machine.step(client.first())) == b""
    assert client.is_complete
    assert machine.is_complete
    with pytest.raises(ServerRefused, match="goes on after the token was accepted"):
        client.step(b"")


def test_a_client_answers_an_error_once() -> None:
    client, machine = OAuthBearerClient("bad"), server()
    assert client.step(machine.step(client.first())) == ABORT
    assert not client.is_complete
    with pytest.raises(LoginRefused):
        machine.step(ABORT)
    with pytest.raises(ServerRefused, match=r"an error about the token: .*invalid_token"):
        client.step(b"")


def begun() -> Login:
    offer = Offer({"OAUTHBEARER": server}, {}, 1000)
    login = Login(offer)
    assert login.on_handshake(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
    return login
