"""SCRAM users as they are stored."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.sasl.credentials import (
    BadCredential,
    ScramUsers,
    decode_credential,
    encode_credential,
)
from odradek.broker.sasl.scram import Credential

STORED = (
    "salt=c2FsdA==,stored_key=YzVmZ2htSGZBdWtINHRhUGxWbkVhTkNDYzU2b3Q4UTc=,"
    "server_key=MnRqcmlUUkJpMjNXcFJSL3d0dXArbU1oVVpVbi9kQjU=,iterations=8192"
)
GOOD = Credential(
    b"salt", b"c5fghmHfAukH4taPlVnEaNCCc56ot8Q7", b"2tjriTRBi23WpRR/wtup+mMhUZUn/dB5", 8192
)


def test_the_stored_text() -> None:
    assert decode_credential(STORED, 32) == GOOD
    assert encode_credential(GOOD) == STORED


@pytest.mark.slow
@given(st.binary(), st.binary(min_size=64, max_size=64), st.integers(1, 1 << 31))
def test_what_is_encoded_is_decoded(salt: bytes, key: bytes, iterations: int) -> None:
    known = Credential(salt, key, key[::-1], iterations)
    assert decode_credential(encode_credential(known), 64) == known


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt",
        STORED + ",more=1",
        STORED.replace("server_key", "other_key"),
        STORED.replace("8192", "many"),
        STORED.replace("8192", "0"),
        STORED.replace("c2FsdA==", "*"),
        STORED.replace("c2FsdA==", "ü"),
        STORED.replace("YzVm", ""),
    ],
)
def test_what_cannot_be_used_is_not_shown(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(BadCredential) as error:
        decode_credential(text, 32)
    assert "MnRqcmlU" not in str(error.value)

    users = ScramUsers()
    users.apply("alice", {"SCRAM-SHA-256": STORED})
    with caplog.at_level(logging.ERROR):
        assert users.apply("alice", {"SCRAM-SHA-256": text})
    assert users.by_mechanism["SCRAM-SHA-256"].credentials == {}
    assert "alice" in caplog.text
    assert "MnRqcmlU" not in caplog.text


def test_users_change_and_go() -> None:
    users = ScramUsers()
    assert users.apply("alice", {"SCRAM-SHA-256": STORED, "producer_byte_rate": "5"})
    assert not users.apply("alice", {"SCRAM-SHA-256": STORED, "producer_byte_rate": "6"})
    assert users.apply("bob", {"SCRAM-SHA-256": STORED})
    assert users.by_mechanism["SCRAM-SHA-256"].credentials == {"alice": GOOD, "bob": GOOD}
    assert users.by_mechanism["SCRAM-SHA-512"].credentials == {}
    assert users.apply("alice", {"producer_byte_rate": "6"})
    users.keep_only([None, "carol"])
    assert users.by_mechanism["SCRAM-SHA-256"].credentials == {}
