"""How this broker logs in to others: what it says, and which servers it does not believe."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.sasl import scram
from odradek.broker.sasl.client import ClientMechanism, ServerRefused
from odradek.broker.sasl.client_plain import PlainClient
from odradek.broker.sasl.client_scram import ITERATIONS_MAX, Password, ScramClient
from odradek.broker.sasl.scram_messages import (
    ClientFinal,
    ClientFirst,
    ServerFinal,
    ServerFirst,
)

from .test_scram import CLIENT_FINAL, CLIENT_FIRST, SERVER_FINAL, SERVER_FIRST

NONCE = "rOprNGfwEbeRWgbNEkqO"
SALT = b"W22ZaJ0SNY7soEsUEjb6gQ=="


def pencil() -> ScramClient:
    return ScramClient(Password(scram.SHA_256, "user", "pencil"), lambda: NONCE)


def after_proof() -> ScramClient:
    client = pencil()
    client.first()
    client.step(SERVER_FIRST)
    return client


def refuses(client: ClientMechanism, answer: bytes, reason: str) -> None:
    with pytest.raises(ServerRefused, match=reason):
        client.step(answer)
    assert not client.is_complete


def test_plain() -> None:
    client = PlainClient("älice", "pässword")
    assert client.first() == "\0älice\0pässword".encode()
    assert not client.is_complete
    client.step(b"")
    assert client.is_complete


def test_plain_has_one_token() -> None:
    refuses(PlainClient("a", "b"), b"more", "goes on")
    client = PlainClient("a", "b")
    client.step(b"")
    with pytest.raises(ServerRefused, match="goes on"):
        client.step(b"")


def test_scram_speaks_the_example_of_the_rfc() -> None:
    client = pencil()
    assert client.first() == CLIENT_FIRST
    assert client.step(SERVER_FIRST) == CLIENT_FINAL
    assert not client.is_complete
    assert client.step(SERVER_FINAL) == b""
    assert client.is_complete
    with pytest.raises(ServerRefused, match="goes on"):
        client.step(SERVER_FINAL)


@pytest.mark.parametrize("nonce", [NONCE, NONCE[:-1] + "x" + "server", "server", NONCE[1:] + "x"])
def test_a_nonce_that_does_not_continue_ours(nonce: str) -> None:
    """As it would be in an answer that was recorded earlier."""
    refuses(pencil(), ServerFirst(nonce, SALT, 4096).encode(), "does not continue ours")


@pytest.mark.parametrize("iterations", [1, 4095, ITERATIONS_MAX + 1, 999_999_999])
def test_iterations_that_are_too_weak_or_too_many(iterations: int) -> None:
    answer = ServerFirst(NONCE + "server", SALT, iterations).encode()
    refuses(pencil(), answer, f"has a password of {iterations} iterations")


@pytest.mark.parametrize("answer", [b"", b"e=", b"r=x", b"\xff" * 100, SERVER_FINAL])
def test_a_first_answer_that_is_none(answer: bytes) -> None:
    refuses(pencil(), answer, "breaks the rules of SCRAM")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ServerFinal(bytes(32)).encode(), "cannot prove that it knows this user"),
        (ServerFinal(b"").encode(), "cannot prove that it knows this user"),
        (SERVER_FINAL.replace(b"v=6", b"v=7"), "cannot prove that it knows this user"),
        (b"e=invalid-proof", "refuses the proof: invalid-proof"),
        (b"", "breaks the rules of SCRAM"),
        (SERVER_FIRST, "breaks the rules of SCRAM"),
    ],
)
def test_a_server_that_does_not_know_the_user(answer: bytes, reason: str) -> None:
    refuses(after_proof(), answer, reason)


@pytest.mark.slow
@given(st.lists(st.binary(max_size=200), min_size=1, max_size=3))
def test_nobody_is_believed_by_accident(answers: list[bytes]) -> None:
    client = pencil()
    client.first()
    with pytest.raises(ServerRefused):
        for answer in (*answers, b""):
            client.step(answer)
    assert not client.is_complete


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", scram.MECHANISMS.values(), ids=str)
@given(user=st.text(st.characters(min_codepoint=1, max_codepoint=126), min_size=1))
def test_both_sides_agree(mechanism: scram.Mechanism, user: str) -> None:
    """Also on names that have to be escaped."""
    known = Password(mechanism, user, "secret")
    client = ScramClient(known, lambda: "abc")
    first = ClientFirst.parse(client.first())
    assert first.name == user
    challenge = ServerFirst(first.nonce + "def", SALT, 4096)
    final = ClientFinal.parse(client.step(challenge.encode()))
    salted = known.salted(SALT, 4096)
    credential = scram.credential(mechanism, salted, salt=SALT, iterations=4096)
    signed = scram.auth_message(first.bare, challenge.text, final.bare)
    assert scram.proves(mechanism, credential, signed, final.proof)
    client.step(
        ServerFinal(scram.server_signature(mechanism, credential.server_key, signed)).encode()
    )
    assert client.is_complete


def test_a_password_is_stretched_once_for_the_same_credential(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    stretch = scram.salted_password

    def count(*arguments: object, **more: object) -> bytes:
        calls.append(more)
        return stretch(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(scram, "salted_password", count)
    password = Password(scram.SHA_256, "user", "pencil")
    first = password.salted(b"salt", 4096)
    assert password.salted(b"salt", 4096) == first
    assert len(calls) == 1
    assert password.salted(b"other", 4096) != first
    assert password.salted(b"salt", 4097) != first
    assert len(calls) == 3
    assert "pencil" not in repr(vars(ScramClient(password, lambda: "x")))
