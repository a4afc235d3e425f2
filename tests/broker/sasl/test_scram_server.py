"""SCRAM's server: who gets in, and what one who does not can learn."""

from base64 import b64encode
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from odradek.broker.sasl import scram
from odradek.broker.sasl.known_users import KnownUsers
from odradek.broker.sasl.mechanism import LoginRefused
from odradek.broker.sasl.scram_messages import ClientFirst, ServerFirst
from odradek.broker.sasl.scram_server import ScramServer
from tests.support.scram import answer_to

MECHANISMS = list(scram.MECHANISMS.values())
SALT = b"salt"


@cache
def known_to(mechanism: scram.Mechanism) -> KnownUsers:
    """Users whose passwords are their names; one has too few iterations."""
    known = KnownUsers()
    for user, count in {"alice": 4096, "weak": 4095}.items():
        salted = scram.salted_password(mechanism, user, salt=SALT, iterations=count)
        known.put(user, scram.credential(mechanism, salted, salt=SALT, iterations=count))
    return known


def server_of(mechanism: scram.Mechanism, secret: bytes = b"cluster") -> ScramServer:
    """A server that knows alice."""
    known = known_to(mechanism)
    return ScramServer(mechanism, known, secret=secret, new_nonce=lambda: "server")


def log_in(server: ScramServer, mechanism: scram.Mechanism, user: str, password: str) -> bytes:
    """The last answer of the server.  Raises: LoginRefused."""
    first = ClientFirst(name=user, nonce="client")
    found = ServerFirst.parse(server.step(first.encode()))
    final, _, _ = answer_to(mechanism, first, found, password)
    return server.step(final)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)
def test_a_user_logs_in(mechanism: scram.Mechanism) -> None:
    server = server_of(mechanism)

    assert log_in(server, mechanism, "alice", "alice").startswith(b"v=")
    assert (server.is_complete, server.user) == (True, "alice")


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)
@pytest.mark.parametrize(("user", "reason"), [("alice", "wrong password"), ("eve", "unknown user")])
def test_nobody_else_does_and_nobody_learns_why(
    mechanism: scram.Mechanism, user: str, reason: str
) -> None:
    server = server_of(mechanism)

    with pytest.raises(LoginRefused, match=reason) as refused:
        log_in(server, mechanism, user, "wrong")
    assert refused.value.shown is None
    assert not server.is_complete


def test_known_and_unknown_users_cost_the_same_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = scram.Mechanism.hmac

    def counting(*given: Any) -> bytes:
        calls.append(1)
        return real(*given)

    def count_of(user: str) -> int:
        server = server_of(scram.SHA_256)
        del calls[:]
        found = ServerFirst.parse(server.step(ClientFirst(name=user, nonce="client").encode()))
        with pytest.raises(LoginRefused):
            server.step(f"c=biws,r={found.nonce},p=".encode() + b64encode(bytes(32)))
        return len(calls)

    monkeypatch.setattr(scram.Mechanism, "hmac", counting)
    assert count_of("alice") == count_of("eve") > 0


def test_the_client_s_nonce_may_stand_twice() -> None:
    """librdkafka does so before version 2.6.1, and Kafka 3.8.1 to 3.9 lets it."""
    server = server_of(scram.SHA_256)
    first = ClientFirst(name="alice", nonce="client")
    found = ServerFirst.parse(server.step(first.encode()))
    twice = replace(found, nonce=f"client{found.nonce}", received=found.text)
    final, _, _ = answer_to(scram.SHA_256, first, twice, "alice")
    assert b"r=clientclientserver," in final

    assert server.step(final).startswith(b"v=")


@pytest.mark.parametrize(
    ("nonce", "channel"), [("client", "biws"), ("clientserverx", "biws"), ("server", "biws")]
)
def test_another_nonce_is_refused(nonce: str, channel: str) -> None:
    """CVE-2024-56128: a server that does not compare it accepts an earlier conversation."""
    server = server_of(scram.SHA_256)
    first = ClientFirst(name="alice", nonce="client")
    found = ServerFirst.parse(server.step(first.encode()))
    final, _, _ = answer_to(scram.SHA_256, first, found, "alice")

    with pytest.raises(LoginRefused, match="another nonce"):
        server.step(final.replace(b"r=clientserver", f"r={nonce}".encode()))


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"n,a=bob,n=alice,r=abc", "different from username"),
        (b"n,,n=alice,r=abc,tokenauth=true", "delegation tokens"),
        (b"p=tls-unique,,n=alice,r=abc", "no client's first message"),
        (b"y,,n=alice,r=abc", "no client's first message"),
        (b"n,,n=weak,r=abc", "4095 iterations"),
    ],
)
def test_a_first_message_is_refused(token: bytes, reason: str) -> None:
    server = server_of(scram.SHA_256)

    with pytest.raises(LoginRefused, match=reason):
        server.step(token)
    assert not server.is_complete
