"""The conversation of a login; all orders are compared with Kafka's in tests/wire."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.sasl import scram
from odradek.broker.sasl.login import Due, Login, LoginFailed, Offer, Session
from odradek.broker.sasl.plain import PlainServer, users_in
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.k36_sasl_authenticate import SaslAuthenticateResponse

from .test_scram_server import server_of

USERS = users_in({"user_alice": "a", "user_bob": "b"})
GOOD = b"\0alice\0a"


class Expiring(PlainServer):
    """A mechanism whose credentials expire."""

    expires_ms: int | None = 5_000


def offer_of(reauth_ms: Mapping[str, int] = {}) -> Offer:
    """What a listener offers; the sessions of PLAIN last as long as is said."""
    return Offer(
        mechanisms={
            "PLAIN": lambda: PlainServer(USERS),
            "EXPIRING": lambda: Expiring(USERS),
            "SCRAM-SHA-256": lambda: server_of(scram.SHA_256),
        },
        reauth_ms=reauth_ms,
        receive_bytes_max=1000,
    )


def begun(
    mechanism: str = "PLAIN",
    before: Session | None = None,
    reauth_ms: Mapping[str, int] = {},
    *,
    version: int = 1,
) -> Login:
    """A login whose mechanism is chosen."""
    login = Login(offer_of(reauth_ms), before, began_ms=70 if before else None)
    answer = login.on_handshake(SaslHandshakeRequest(mechanism=mechanism), version)
    assert answer.error_code == 0
    return login


def take(login: Login, token: bytes = GOOD) -> SaslAuthenticateResponse:
    return login.on_token(token, now_ms=100, wall_ms=2_000)


def test_versions_may_come_first() -> None:
    login = Login(offer_of())
    due = [login.due]
    login.on_versions_shown()
    due.append(login.due)
    assert due == [Due.VERSIONS_OR_HANDSHAKE, Due.HANDSHAKE]
    answer = login.on_handshake(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert answer.mechanisms == ["PLAIN", "EXPIRING", "SCRAM-SHA-256"]
    assert take(login).session_lifetime_ms == 0
    assert login.session == Session("PLAIN", "alice", None, None)
    assert login.due is Due.NOTHING


def test_an_old_handshake_wants_bare_tokens() -> None:
    assert begun(version=0).due is Due.BARE_TOKEN


def test_an_unknown_mechanism_ends_the_login() -> None:
    login = Login(offer_of())
    with pytest.raises(LoginFailed) as failed:
        login.on_handshake(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    answer = failed.value.answer
    assert answer is not None
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM  # type: ignore[attr-defined]
    assert login.due is Due.NOTHING


@pytest.mark.parametrize(("version", "is_told"), [(0, False), (1, True)])
def test_a_wrong_password_ends_the_login(version: int, is_told: bool) -> None:
    login = begun(version=version)
    with pytest.raises(LoginFailed, match="wrong password") as failed:
        take(login, b"\0alice\0b")
    assert login.due is Due.NOTHING
    assert login.session is None
    assert login.user == "alice"
    assert (failed.value.answer is not None) == is_told


def test_only_scram_does_not_say_why() -> None:
    with pytest.raises(LoginFailed) as failed:
        take(begun("SCRAM-SHA-256"), b"nonsense")
    assert failed.value.answer == SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
        error_message="Authentication failed during authentication due to invalid credentials "
        "with SASL mechanism SCRAM-SHA-256",
    )


@pytest.mark.parametrize(
    ("mechanism", "reauth_ms", "lasts_ms"),
    [
        ("PLAIN", 400, 400),
        ("PLAIN", 0, 0),
        ("PLAIN", -1, 0),
        ("EXPIRING", 0, 3_000),
        ("EXPIRING", 400, 400),
        ("EXPIRING", 9_000, 3_000),
    ],
)
def test_a_session_lasts_as_long_as_allowed(mechanism: str, reauth_ms: int, lasts_ms: int) -> None:
    login = begun(mechanism, None, {mechanism: reauth_ms})
    assert take(login).session_lifetime_ms == lasts_ms
    assert login.session is not None
    assert login.session.ends_ms == (100 + lasts_ms if lasts_ms else None)


def test_a_credential_that_has_expired_ends_at_once() -> None:
    login = begun("EXPIRING")
    login.on_token(GOOD, now_ms=100, wall_ms=6_000)
    assert login.session is not None
    assert login.session.ends_ms == 100


def test_when_a_session_may_be_renewed_and_when_it_has_ended() -> None:
    first = Session("PLAIN", "alice", None, 500)
    assert first.may_renew(1)
    assert not first.has_ended(500)
    assert first.has_ended(501)
    again = Session("PLAIN", "alice", 1000, 9000)
    assert not again.may_renew(1999)
    assert again.may_renew(2000)
    for_ever = Session("PLAIN", "alice", None, None)
    assert not for_ever.may_renew(1 << 40)
    assert not for_ever.has_ended(1 << 40)


BEFORE = Session("PLAIN", "alice", None, 500)


def test_a_session_is_renewed() -> None:
    login = begun(before=BEFORE, reauth_ms={"PLAIN": 400})
    assert take(login).session_lifetime_ms == 400
    assert login.session == Session("PLAIN", "alice", 70, 500)


def test_only_the_same_user_renews_a_session() -> None:
    with pytest.raises(LoginFailed) as failed:
        take(begun(before=BEFORE), b"\0bob\0b")
    assert failed.value.answer is not None
    text = failed.value.answer.error_message  # type: ignore[attr-defined]
    assert text == "Cannot change principals during re-authentication from User.alice: User.bob"


def test_names_that_tokens_choose_forge_no_line_and_fit_the_answer() -> None:
    eve = "\nWARNING all is well " + "e" * 40_000
    with pytest.raises(LoginFailed) as failed:
        take(begun(before=BEFORE._replace(user=eve)))
    assert failed.value.reason.isprintable()
    assert len(failed.value.reason) < 300
    assert failed.value.answer is not None
    failed.value.answer.encode(1)


def test_only_the_same_mechanism_renews_a_session() -> None:
    login = begun("EXPIRING", before=BEFORE)
    with pytest.raises(LoginFailed, match="had logged in by PLAIN") as failed:
        take(login)
    assert failed.value.answer is None
    assert login.session is None


def test_a_session_is_renewed_without_asking_for_versions() -> None:
    assert Login(offer_of(), BEFORE).due is Due.HANDSHAKE


TOKENS = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from([b"", b"\0", b"alice", b"a", b"bob", b"n,,", b"n=alice", b",r=x"]))
    .map(b"".join)
    .filter(lambda token: token not in (GOOD, b"alice" + GOOD)),
)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.sampled_from(["PLAIN", "SCRAM-SHA-256"]), st.sampled_from([0, 1]), st.lists(TOKENS))
def test_no_tokens_made_of_good_ones_log_in(
    mechanism: str, version: int, tokens: list[bytes]
) -> None:
    login = begun(mechanism, version=version)
    for token in tokens:
        if b"\0bob\0b" in token:
            continue
        try:
            take(login, token)
        except LoginFailed:
            assert login.due is Due.NOTHING
            break
        assert login.due is not Due.NOTHING
    assert login.session is None


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_no_random_bytes_log_in(mechanism: str) -> None:
    """5,000 tokens each: random ones, and the good first one with some bytes changed."""
    random = Random(1)
    good = GOOD if mechanism == "PLAIN" else b"n,,n=alice,r=client"
    for _ in range(5_000):
        token = bytearray(random.choice((good, good * 2, random.randbytes(30))))
        for _ in range(random.randrange(1, 4)):
            token[random.randrange(len(token))] = random.randrange(256)
        login = begun(mechanism)
        try:
            take(login, bytes(token))
            if login.due is Due.TOKEN:
                take(login, bytes(token))
        except LoginFailed:
            pass
        assert login.session is None or bytes(token) in (GOOD, b"alice" + GOOD)
