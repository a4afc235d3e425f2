"""PLAIN: one token, and what it must be; Kafka's answers are compared in tests/wire."""

import pytest

from odradek.broker.sasl.mechanism import LoginRefused
from odradek.broker.sasl.plain import PlainServer, hash_of, users_in

USERS = users_in(
    {"user_alice": "alice-secret", "user_bob": "bob-secret", "user_none": "", "user_ü": "ä"}
)


def test_users_are_options_with_a_prefix() -> None:
    options = {"username": "admin", "password": "x", "user_alice": "a", "user_": "e", "User_b": "b"}

    assert users_in(options) == {"alice": hash_of("a"), "": hash_of("e")}


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (b"\0alice\0alice-secret", "alice"),
        (b"alice\0alice\0alice-secret", "alice"),
        ("\0ü\0ä".encode(), "ü"),
    ],
)
def test_a_user_logs_in(token: bytes, user: str) -> None:
    server = PlainServer(USERS)

    assert server.step(token) == b""
    assert (server.is_complete, server.user) == (True, user)


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (b"\0alice\0bob-secret", "Invalid username or password"),
        (b"\0eve\0alice-secret", "Invalid username or password"),
        (b"bob\0alice\0alice-secret", "an authorization id that is different from username"),
        (b"bob\0alice\0wrong", "Invalid username or password"),
        (b"\0none\0", "password not specified"),
        (b"\0\0x", "username not specified"),
        (b"", "expected 3 tokens, got 1"),
        (b"\0alice\0alice-secret\0", "expected 3 tokens, got 4"),
        (b"\0alice\0\xff", "Invalid username or password"),
    ],
)
def test_nobody_else_does(token: bytes, shown: str) -> None:
    server = PlainServer(USERS)

    with pytest.raises(LoginRefused) as refused:
        server.step(token)
    assert shown in str(refused.value.shown)
    assert not server.is_complete
    assert "secret" not in refused.value.reason
