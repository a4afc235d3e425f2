"""Signed tokens, and the keys that they are checked with; Kafka's rules are compared in wire."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt import PyJWK

from odradek.broker.tokens.keys import BadKeys, Keys, find_key, parse_keys
from odradek.broker.tokens.signed import Rules, SignedTokens, check_claims
from odradek.broker.tokens.token import InvalidToken
from tests.support.tokens import confused, jwk, jwks, signed, unsigned

NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1000
GOOD: Mapping[str, Any] = {"sub": "alice", "iat": NOW_S - 1, "exp": NOW_S + 60}


class Known:
    """Keys that do not change."""

    def __init__(self, *names: str) -> None:
        self._keys: Keys = parse_keys(jwks(*(jwk(name) for name in names)))

    def find(self, algorithm: str, key_id: object) -> PyJWK | None:
        return find_key(self._keys, algorithm, key_id)


def validate(text: str) -> tuple[str, int]:
    return SignedTokens(Rules(), Known("ES256", "RS256", "EdDSA")).validate(text, NOW_MS)


@pytest.mark.parametrize("name", ["ES256", "RS256", "EdDSA"])
def test_a_good_token(name: str) -> None:
    assert validate(signed(GOOD, name)) == ("alice", NOW_MS + 60_000)


@pytest.mark.parametrize("algorithm", ["RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_key_of_rsa_has_several_algorithms(algorithm: str) -> None:
    assert validate(signed(GOOD, "RS256", alg=algorithm))[0] == "alice"


@pytest.mark.parametrize(
    "text",
    [
        unsigned(GOOD),
        unsigned(GOOD, {"alg": "none", "kid": "ES256"}),
        unsigned(GOOD, {"alg": ["ES256"], "kid": "ES256"}, "abc"),
        unsigned(GOOD, {"alg": "ES256", "kid": 7}, "abc"),
        unsigned(GOOD, {"alg": "ES256", "kid": None}, ""),
        unsigned(GOOD, b"[" * 50_000, "abc"),
        signed(GOOD, "ES256-other"),
        signed(GOOD, "ES256-other", kid="ES256"),
        signed(GOOD, "ES256-other", kid=None),
        signed(GOOD, kid="RS256"),
        signed(GOOD, crit=["exp"]),
        confused(GOOD),
        signed(GOOD) + ".",
        f".{signed(GOOD)}",
        signed(GOOD).replace(".", ".."),
        signed(b"[" * 50_000),
        signed([GOOD]),
        "",
        "..",
    ],
    ids=range(19),
)
def test_who_has_not_signed_a_token(text: str) -> None:
    with pytest.raises(InvalidToken) as invalid:
        validate(text)
    assert "alice" not in invalid.value.reason


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_change_of_any_part_is_noticed(at: int) -> None:
    parts = signed(GOOD).split(".")
    for place in range(0, len(parts[at]), 5):
        letter = "A" if parts[at][place] != "A" else "B"
        changed = parts[at][:place] + letter + parts[at][place + 1 :]
        with pytest.raises(InvalidToken):
            validate(".".join([*parts[:at], changed, *parts[at + 1 :]]))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": None}, "no claim exp or iat"),
        ({"iat": None}, "no claim exp or iat"),
        ({"exp": NOW_S - 30}, "has expired"),
        ({"exp": -1, "iat": -5}, "below 0"),
        ({"nbf": NOW_S + 31}, "does not count yet"),
        ({"iat": NOW_S + 61}, "before it begins"),
        ({"nbf": NOW_S + 61}, "before it begins"),
        ({"exp": "9999999999"}, "exp is not a time"),
        ({"exp": float("inf")}, "exp is not a time"),
        ({"sub": None}, "sub is not the name"),
        ({"sub": ["alice"]}, "sub is not the name"),
        ({"sub": "\t"}, "sub is not the name"),
        ({"sub": "alice\udc00"}, "sub is not the name"),
        ({"aud": None}, "audience"),
        ({"aud": "kafk"}, "audience"),
        ({"aud": {"kafka": 1}}, "audience"),
        ({"aud": [["kafka"]]}, "audience"),
        ({"iss": "https://i/"}, "issuer"),
        ({"scope": ["a", 7]}, "empty scope"),
        ({"scope": " "}, "empty scope"),
        ({"scope": ["a", "a "]}, "the same one twice"),
    ],
)
def test_what_a_token_must_say(changes: Mapping[str, Any], reason: str) -> None:
    rules = Rules(audiences=("kafka", "x"), issuer="https://i")
    good = {**GOOD, "aud": ["y", "x"], "iss": "https://i", "scope": ["a", "b"]}
    assert check_claims(good, rules, NOW_MS).user == "alice"
    with pytest.raises(InvalidToken, match=reason):
        check_claims({**good, **changes}, rules, NOW_MS)


def test_the_user_may_be_another_claim() -> None:
    claims = {**GOOD, "email": " a@b ", "iat": NOW_S - 99, "exp": NOW_S - 29}
    assert check_claims(claims, Rules(user_claim="email"), NOW_MS) == ("a@b", (NOW_S - 29) * 1000)


KEPT = "ES256"


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "a"},
        jwk("ES256", use="enc"),
        jwk("ES256", key_ops=["sign"]),
        jwk("ES256", alg="RS256"),
        jwk("ES256", crv="P-521"),
        jwk("ES256", crv=[]),
        jwk("ES256", x="!"),
        jwk("ES256", x=None),
        jwk("RS256-short"),
        jwk("RS256", n=7),
        {"kty": "RSA"},
        {"kty": ["RSA"]},
        {},
        7,
        None,
    ],
)
def test_keys_that_are_left_out(entry: Any) -> None:
    with pytest.raises(BadKeys, match="has no key"):
        parse_keys(jwks(entry))
    (kept,) = parse_keys(jwks(entry, jwk(KEPT, alg="ES256", use="sig", key_ops=["verify"])))
    assert (kept.key_id, list(kept.by_algorithm)) == (KEPT, ["ES256"])


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"7", b"{}", b'{"keys":{}}', b"[" * 100_000, jwks(*[{}] * 1001), b"\xff"],
)
def test_no_set_of_keys(data: bytes) -> None:
    with pytest.raises(BadKeys, match="is not a JSON Web Key Set"):
        parse_keys(data)


def test_a_set_with_a_private_key_only_checks() -> None:
    private = {**jwk("EdDSA"), "d": "AAAA"}
    (key,) = parse_keys(jwks(private))
    assert not hasattr(key.by_algorithm["EdDSA"].key, "sign")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
FIELDS = st.sampled_from(["kty", "kid", "alg", "use", "key_ops", "n", "e", "crv", "x", "y"])


@pytest.mark.slow
@settings(max_examples=25)
@given(st.dictionaries(FIELDS, JSON | st.sampled_from(["RSA", "EC", "P-256", "AQAB", "ES256"])))
def test_any_key_can_be_read_or_not(entry: dict[str, Any]) -> None:
    with suppress(BadKeys):
        parse_keys(json.dumps({"keys": [entry]}).encode())


NAMES = st.sampled_from(["sub", "iat", "exp", "nbf", "aud", "iss", "scope"])
TIMES = st.integers(NOW_S - 100, NOW_S + 100)


@settings(max_examples=25)
@given(st.dictionaries(NAMES, JSON | TIMES))
def test_any_claims_are_valid_or_not(claims: dict[str, Any]) -> None:
    with suppress(InvalidToken):
        found = check_claims(claims, Rules(audiences=("a",), issuer="b"), NOW_MS)
        assert found.expires_ms > NOW_MS - 30_000
