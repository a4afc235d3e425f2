"""Unsecured tokens; that Kafka takes the same ones is compared in tests/wire."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.tokens.token import InvalidToken
from odradek.broker.tokens.unsecured import BadOption, Login, Validator
from tests.support.tokens import part
from tests.support.tokens import unsigned as token

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS / 1000
GOOD: Mapping[str, Any] = {"sub": "alice", "iat": NOW_S - 1, "exp": NOW_S + 60.5}


def test_a_token_says_who_somebody_is_and_until_when() -> None:
    assert Validator().validate(token(GOOD), NOW_MS) == ("alice", NOW_MS + 60_500)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "three parts"),
        ("a.b", "three parts"),
        (token(GOOD) + ".", "three parts"),
        ("!.!.", "header is not JSON"),
        (f"{part(b'{')}.{part(GOOD)}.", "header is not JSON"),
        (f"{part([])}.{part(GOOD)}.", "header is not a JSON object"),
        (token(b"[" * 100_000), "content is not JSON"),
        (token(GOOD, {"alg": "HS256"}), "signed"),
        (token(GOOD, {"alg": "None"}), "signed"),
        (token(GOOD, {}), "signed"),
        (token(GOOD, signature="x"), "signed"),
        (token({"exp": NOW_S + 1}), "sub is not"),
        (token({**GOOD, "sub": " "}), "sub is not"),
        (token({**GOOD, "sub": 7}), "sub is not"),
        (token({**GOOD, "sub": "\ud83d"}), "sub is not"),
        (token({"sub": "alice"}), "no claim exp"),
        (token({**GOOD, "exp": "soon"}), "exp is not a time"),
        (token({**GOOD, "exp": True}), "exp is not a time"),
        (token({**GOOD, "exp": float("nan")}), "exp is not a time"),
        (token({**GOOD, "exp": 1e300}), "exp is not a time"),
        (token({**GOOD, "exp": 10**400}), "exp is not a time"),
        (token({**GOOD, "exp": NOW_S}), "has expired"),
        (token({**GOOD, "iat": NOW_S + 1}), "from the future"),
        (token({"sub": "alice", "iat": NOW_S, "exp": NOW_S - 5}), "has expired"),
    ],
)
def test_tokens_that_let_nobody_in(text: str, reason: str) -> None:
    with pytest.raises(InvalidToken, match=reason) as invalid:
        Validator().validate(text, NOW_MS)
    assert invalid.value.scope is None
    assert "alice" not in invalid.value.reason


def test_clocks_may_differ_a_little() -> None:
    validator = Validator.of({"unsecuredValidatorAllowableClockSkewMs": " 2000 "})
    assert validator.validate(token({**GOOD, "iat": NOW_S + 2}), NOW_MS).user == "alice"
    late = {"sub": "alice", "exp": NOW_S - 1.5}
    assert validator.validate(token(late), NOW_MS).expires_ms == NOW_MS - 1500
    with pytest.raises(InvalidToken, match="before it is issued"):
        validator.validate(token({**late, "iat": NOW_S - 1}), NOW_MS)


@pytest.mark.parametrize(
    ("scope", "is_enough"),
    [
        (["write", "read", "x"], True),
        (["read", " write "], True),
        ("read", False),
        ("read write", False),  # one scope, as in Kafka
        ([], False),
        (None, False),
    ],
)
def test_scopes_that_are_required(scope: object, is_enough: bool) -> None:
    options = {
        "unsecuredValidatorRequiredScope": "read write",
        "unsecuredValidatorScopeClaimName": "scp",
        "unsecuredValidatorPrincipalClaimName": "name",
    }
    text = token({"name": "bob", "exp": NOW_S + 1, "scp": scope})
    if is_enough:
        assert Validator.of(options).validate(text, NOW_MS).user == "bob"
        return
    with pytest.raises(InvalidToken, match="lacks a scope") as invalid:
        Validator.of(options).validate(text, NOW_MS)
    assert invalid.value.scope == "[read, write]"


def test_a_client_s_own_tokens() -> None:
    login = Login.of(
        {
            "unsecuredLoginPrincipalClaimName": "name",
            "unsecuredLoginStringClaim_name": 'a"b',
            "unsecuredLoginNumberClaim_level": "3.5",
            "unsecuredLoginListClaim_scope": "|read|write",
            "unsecuredLoginListClaim_none": "|",
            "unsecuredLoginLifetimeSeconds": "60",
            "unsecuredLoginExtension_trace": "7",
        }
    )
    assert (login.user, login.extensions) == ('a"b', {"trace": "7"})
    assert login.claims["level"] == 3.5
    assert login.claims["none"] == []
    options = {
        "unsecuredValidatorPrincipalClaimName": "name",
        "unsecuredValidatorRequiredScope": "read write",
    }
    found = Validator.of(options).validate(login.token(NOW_MS), NOW_MS)
    assert found == ('a"b', NOW_MS + 60_000)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "StringClaim_sub must be the name"),
        ({"unsecuredLoginStringClaim_sub": " "}, "StringClaim_sub must be the name"),
        ({"unsecuredLoginStringClaim_exp": "9"}, "StringClaim_exp is not allowed"),
        ({"unsecuredLoginNumberClaim_x": "nan"}, "NumberClaim_x is not a number"),
        ({"unsecuredLoginNumberClaim_x": "y"}, "NumberClaim_x is not a number"),
        ({"unsecuredLoginLifetimeSeconds": "-1"}, "LifetimeSeconds must be a whole number"),
        ({"unsecuredLoginStringClaim_": "x"}, "is not an option"),
        ({"username": "x"}, "username is not an option"),
        ({"unsecuredValidatorAllowableClockSkewMs": "1.5"}, "must be a whole number"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadOption, match=sentence):
        Validator.of(options)
        Login.of({"unsecuredLoginStringClaim_sub": "alice", **options} if options else options)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
CLAIMS = st.dictionaries(st.sampled_from(["sub", "iat", "exp", "scope"]), JSON)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.one_of(CLAIMS, JSON), st.one_of(st.just({"alg": "none"}), JSON))
def test_any_content_is_valid_or_invalid(claims: object, header: object) -> None:
    with suppress(InvalidToken):
        assert Validator(required_scope=("a",)).validate(token(claims, header), NOW_MS).user


@settings(max_examples=40)
@given(st.text())
def test_any_text_is_invalid(text: str) -> None:
    with pytest.raises(InvalidToken):
        Validator().validate(text, NOW_MS)
