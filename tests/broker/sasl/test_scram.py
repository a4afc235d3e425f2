"""SCRAM's arithmetic and texts, by the example of RFC 7677 and by what must not pass."""

import tracemalloc
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.sasl import scram
from odradek.broker.sasl.oauthbearer import BadMessage
from odradek.broker.sasl.oauthbearer import ClientFirst as OAuthFirst
from odradek.broker.sasl.scram_messages import (
    BadScram,
    ClientFinal,
    ClientFirst,
    ServerFinal,
    ServerFirst,
    client_final_bare,
)

# RFC 7677 section 3: user "user", password "pencil".
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

NAMES = st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1)


def test_the_example_of_the_rfc_on_both_sides() -> None:
    first = ClientFirst.parse(CLIENT_FIRST)
    challenge = ServerFirst.parse(SERVER_FIRST)
    bare = client_final_bare(challenge.nonce)
    signed = scram.auth_message(first.bare, challenge.text, bare)
    salted = scram.salted_password(
        scram.SHA_256, "pencil", salt=challenge.salt, iterations=challenge.iterations
    )

    proof = scram.client_proof(scram.SHA_256, salted, signed)
    final = ClientFinal(bare, b"n,,", challenge.nonce, proof)
    assert (first.encode(), challenge.encode(), final.encode()) == (
        CLIENT_FIRST,
        SERVER_FIRST,
        CLIENT_FINAL,
    )
    assert ClientFinal.parse(CLIENT_FINAL) == final

    known = scram.credential(scram.SHA_256, salted, salt=challenge.salt, iterations=4096)
    assert scram.proves(scram.SHA_256, known, signed, proof)
    signature = scram.server_signature(scram.SHA_256, known.server_key, signed)
    assert ServerFinal(signature).encode() == SERVER_FINAL
    assert ServerFinal.parse(SERVER_FINAL) == ServerFinal(signature)


@pytest.mark.parametrize("mechanism", scram.MECHANISMS.values(), ids=str)
@pytest.mark.parametrize("password", ["pencil2", "", "Pencil"])
def test_another_password_proves_nothing(mechanism: scram.Mechanism, password: str) -> None:
    good = scram.salted_password(mechanism, "pencil", salt=b"salt", iterations=1)
    bad = scram.salted_password(mechanism, password, salt=b"salt", iterations=1)
    known = scram.credential(mechanism, good, salt=b"salt", iterations=1)

    assert scram.proves(mechanism, known, b"m", scram.client_proof(mechanism, good, b"m"))
    assert not scram.proves(mechanism, known, b"m", scram.client_proof(mechanism, bad, b"m"))
    assert not scram.proves(mechanism, known, b"n", scram.client_proof(mechanism, good, b"m"))


def test_a_proof_of_another_length_proves_nothing() -> None:
    known = scram.Credential(b"", stored_key=b"", server_key=b"", iterations=1)

    assert not scram.proves(scram.SHA_256, known, b"m", b"")
    assert not scram.proves(scram.SHA_256, known, b"m", bytes(64))


def test_a_credential_shows_nothing_when_it_is_printed() -> None:
    known = scram.Credential(b"SECRET1", b"SECRET2", b"SECRET3", 4096)

    assert "SECRET" not in repr(known)


@pytest.mark.slow
@given(NAMES, NAMES, st.booleans())
def test_names_survive_their_quoting(name: str, authzid: str, has_authzid: bool) -> None:
    quoted = authzid.replace("=", "=3D").replace(",", "=2C")
    header = f"n,a={quoted}," if has_authzid else "n,,"
    first = ClientFirst(name=name, nonce="abc", header=header)
    found = ClientFirst.parse(first.encode())

    assert found == replace(first, header="n,,", authzid=authzid if has_authzid else "")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"y,,n=user,r=abc",  # the client would have bound channels, had it been offered
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=abc",
        b"n,,n=us,er,r=abc",
        b"n,,n=us\x00er,r=abc",
        "n,,n=ü,r=abc".encode(),
        b"n,a=,n=user,r=abc",
        b"n,,n=user,r=abc,",
        b"n,,n=user,r=abc\n",
    ],
)
def test_no_first_message_of_a_client(data: bytes) -> None:
    with pytest.raises(BadScram):
        ClientFirst.parse(data)


LONG = 400_000


@pytest.mark.parametrize(
    ("parse", "start", "piece"),
    [
        (ClientFirst.parse, b"n,,n=", b"u"),
        (ClientFirst.parse, b"n,a=", b"=2C"),
        (ClientFinal.parse, b"c=", b"AAAA"),
        (OAuthFirst.parse, b"n,a=", b"u"),
        (OAuthFirst.parse, b"n,,\x01", b"a=b\x01"),
    ],
)
def test_long_messages_take_little_memory(
    parse: Callable[[bytes], object], start: bytes, piece: bytes
) -> None:
    """Anybody may send them.  To go back, the engine would keep 100 times as much."""
    data = start + piece * (LONG // len(piece))
    tracemalloc.start()
    try:
        with pytest.raises((BadScram, BadMessage)):
            parse(data)
        assert tracemalloc.get_traced_memory()[1] < 4 * LONG
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [b"", b"c=biws,r=abc", b"c=biws,r=abc,p=a", b"c=*,r=abc,p=", b"r=abc,c=biws,p=", b"\x80"],
)
def test_no_final_message_of_a_client(data: bytes) -> None:
    with pytest.raises(BadScram):
        ClientFinal.parse(data)


@pytest.mark.parametrize("count", [b"", b"-1", b"x", b"1" * 10])
def test_no_first_message_of_a_server(count: bytes) -> None:
    with pytest.raises(BadScram):
        ServerFirst.parse(b"r=abc,s=" + b64encode(b"salt") + b",i=" + count)


def test_extensions_are_kept_and_signed() -> None:
    first = ClientFirst.parse(b"n,,n=id,r=abc,tokenauth=true,other=1")

    assert first.token_authenticated
    assert first.bare == "n=id,r=abc,tokenauth=true,other=1"
    assert not ClientFirst.parse(b"n,,n=id,r=abc,tokenauth=false").token_authenticated
    final = ClientFinal.parse(b"c=biws,r=abc,more=x,p=" + b64encode(b"proof"))
    assert (final.bare, final.proof) == ("c=biws,r=abc,more=x", b"proof")
    assert b64decode("biws") == final.channel_binding


def test_a_server_says_why_it_refuses() -> None:
    assert ServerFinal.parse(b"e=other-error") == ServerFinal(error="other-error")
