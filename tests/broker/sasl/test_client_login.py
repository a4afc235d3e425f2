"""A login as a client, round by round, and what is said of a server that ends it."""

import pytest

from odradek.broker.sasl import scram
from odradek.broker.sasl.client import ServerRefused
from odradek.broker.sasl.client_login import ClientLogin, check_handshake
from odradek.broker.sasl.client_oauthbearer import OAuthBearerClient
from odradek.broker.sasl.client_plain import PlainClient
from odradek.broker.sasl.client_scram import Password, ScramClient
from odradek.broker.sasl.oauthbearer import ABORT

from .test_scram import CLIENT_FINAL, CLIENT_FIRST, SERVER_FINAL, SERVER_FIRST

NONCE = "rOprNGfwEbeRWgbNEkqO"  # of the example


def test_the_mechanism_is_offered() -> None:
    check_handshake("PLAIN", 0, ["PLAIN", "SCRAM-SHA-256"])


@pytest.mark.parametrize(
    ("offered", "names"),
    [(["GSSAPI", "SCRAM-SHA-512"], "GSSAPI, SCRAM-SHA-512"), ([], "none")],
)
def test_the_mechanism_is_not_offered(offered: list[str], names: str) -> None:
    with pytest.raises(ServerRefused) as refused:
        check_handshake("PLAIN", 33, offered)
    assert str(refused.value) == f"has no login by PLAIN; it offers {names}"


def test_plain_takes_one_round() -> None:
    login = ClientLogin(PlainClient("alice", "secret"))
    assert login.token == b"\0alice\0secret"
    assert not login.is_complete
    login.take(0, None, b"")
    assert login.is_complete


def test_scram_takes_two_rounds() -> None:
    login = ClientLogin(ScramClient(Password(scram.SHA_256, "user", "pencil"), lambda: NONCE))
    assert login.token == CLIENT_FIRST
    login.take(0, None, SERVER_FIRST)
    assert login.token == CLIENT_FINAL
    assert not login.is_complete
    login.take(0, None, SERVER_FINAL)
    assert login.is_complete


def test_a_token_that_is_refused_is_given_up_before_the_server_says_so() -> None:
    login = ClientLogin(OAuthBearerClient("token"))
    login.take(0, None, b'{"status":"invalid_token"}')
    assert login.token == ABORT
    with pytest.raises(ServerRefused, match="refuses the login: no such token"):
        login.take(58, "no such token", b"")
    assert not login.is_complete


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (58, "Authentication failed: no", "Authentication failed: no"),
        (58, None, "SASL_AUTHENTICATION_FAILED"),
        (58, "", "SASL_AUTHENTICATION_FAILED"),
        (999, None, "999"),  # of a broker that is newer than this list of errors
    ],
)
def test_the_reason_is_the_brokers(code: int, message: str | None, reason: str) -> None:
    login = ClientLogin(PlainClient("alice", "secret"), "refuses the login of 'alice'")
    with pytest.raises(ServerRefused) as refused:
        login.take(code, message, b"")
    assert str(refused.value) == f"refuses the login of 'alice': {reason}"
    assert not login.is_complete


def test_a_mechanism_that_refuses_the_server() -> None:
    login = ClientLogin(PlainClient("alice", "secret"))
    with pytest.raises(ServerRefused, match="goes on after the only token of PLAIN"):
        login.take(0, None, b"more")
    assert not login.is_complete


def test_the_bytes_of_an_answer_may_be_a_view() -> None:
    login = ClientLogin(ScramClient(Password(scram.SHA_256, "user", "pencil"), lambda: NONCE))
    login.take(0, None, memoryview(SERVER_FIRST))
    assert login.token == CLIENT_FINAL
