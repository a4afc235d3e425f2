"""What is said by clients that log in with tokens, good and bad ones."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from tests.support.tokens import confused, part, signed, unsigned
from tests.wire.oauthbearer_talk import NAME, OAuthBearerTalk

Conversation = Callable[[OAuthBearerTalk], None]
ABORT: Final = b"\x01"
FAR_S: Final = 3600


def _shown(talk: OAuthBearerTalk, label: str, text: str, **more: str) -> None:
    """Show a token, answer an error as a client should, and see whether other requests work."""
    talk.say(
        label,
        partial(talk.handshake, NAME),
        partial(talk.show, text, **more),
        talk.serves if label.startswith("good") else partial(talk.send, ABORT),
    )


def unsecured_tokens(talk: OAuthBearerTalk) -> None:
    """What an unsecured token must say."""
    now_s = talk.now_s()
    good = {"sub": "alice", "iat": now_s - 10, "exp": now_s + FAR_S}
    claims: Mapping[str, Mapping[str, Any]] = {
        "good": good,
        "good without iat": {"sub": "alice", "exp": now_s + FAR_S},
        "good fraction": {**good, "exp": now_s + FAR_S + 0.5},
        "good nbf that is ignored": {**good, "nbf": now_s + FAR_S},
        "good user of no text": {**good, "sub": True},
        "good odd user": {**good, "sub": "a b,=/ü"},
        "expired": {**good, "exp": now_s - 1},
        "long expired": {**good, "iat": 1, "exp": 2},
        "from the future": {**good, "iat": now_s + 60},
        "no exp": {"sub": "alice", "iat": now_s},
        "no sub": {"iat": now_s, "exp": now_s + FAR_S},
        "empty sub": {**good, "sub": ""},
        "blank sub": {**good, "sub": " "},
        "number as sub": {**good, "sub": 7},
        "list as sub": {**good, "sub": ["alice"]},
        "object as sub": {**good, "sub": {"a": 1}},
        "text as exp": {**good, "exp": str(now_s + FAR_S)},
        "text as iat": {**good, "iat": "1"},
        "number as scope": {**good, "scope": 7},
        "nothing": {},
    }
    for name, each in claims.items():
        _shown(talk, name, unsigned(each))
    for name, text in {
        "good extra fields": unsigned(good, {"alg": "none", "typ": "JWT"}),
        "signed": signed(good),
        "HS256": unsigned(good, {"alg": "HS256"}, "abc"),
        "HS256 without a signature": unsigned(good, {"alg": "HS256"}),
        "a signature": unsigned(good, signature="abc"),
        "NONE": unsigned(good, {"alg": "NONE"}),
        "no alg": unsigned(good, {"typ": "JWT"}),
        "two parts": unsigned(good)[:-1],
        "four parts": unsigned(good) + ".",
        "no header": f".{part(good)}.",
        "no JSON": f"{part(b'{')}.{part(b'{')}.",
        "no object": f"{part([])}.{part([])}.",
        "a word": "abc",
        "url-safe letters": unsigned({**good, "x": "???>>>~~~"}),
    }.items():
        _shown(talk, name, text)


def unsecured_scopes(talk: OAuthBearerTalk) -> None:
    """Scopes that a listener asks for, under another name, as that of the user."""
    talk.listener = "SCOPED"
    now_s = talk.now_s()
    good = {"name": "alice", "sub": "bob", "iat": now_s, "exp": now_s + FAR_S}
    scopes: Mapping[str, Any] = {
        "good": ["write", "read", "more"],
        "good with blanks": [" write", "read "],
        "good twice": ["write", "read", "read"],
        "one is missing": ["write"],
        "one text": "read write",
        "empty": [],
        "empty text": "",
        "null": None,
    }
    for name, scope in scopes.items():
        _shown(talk, name, unsigned({**good, "scp": scope}))
    _shown(talk, "no scope", unsigned(good))
    _shown(talk, "no user", unsigned({"sub": "bob", "exp": now_s + FAR_S, "scp": scopes["good"]}))
    late = {**good, "scp": scopes["good"]}
    _shown(talk, "good within the skew", unsigned({**late, "iat": now_s + 30}))
    _shown(talk, "outside the skew", unsigned({**late, "iat": now_s - 99, "exp": now_s - 90}))


def signed_tokens(talk: OAuthBearerTalk) -> None:
    """Who must have signed a token, and what it must say."""
    talk.listener = "SIGNED"
    now_s = talk.now_s()
    good = {
        "sub": "alice",
        "iat": now_s - 10,
        "exp": now_s + FAR_S,
        "aud": "kafka",
        "iss": "https://issuer.test",
    }

    def without(name: str) -> dict[str, Any]:
        return {each: value for each, value in good.items() if each != name}

    claims: Mapping[str, Mapping[str, Any]] = {
        "good": good,
        "good several audiences": {**good, "aud": ["x", "others"]},
        "good from the future": {**good, "iat": now_s + 1800},
        "good scope": {**good, "scope": "read write"},
        "good scopes": {**good, "scope": ["read", "write"]},
        "good number as scope": {**good, "scope": 7},
        "good blanks around the user": {**good, "sub": " alice "},
        "expired": {**good, "exp": now_s - 60},
        "wrong audience": {**good, "aud": "kafka2"},
        "wrong audiences": {**good, "aud": ["a", "b"]},
        "no audience": without("aud"),
        "wrong issuer": {**good, "iss": "https://issuer.test/"},
        "no issuer": without("iss"),
        "no exp": without("exp"),
        "no iat": without("iat"),
        "no sub": without("sub"),
        "empty sub": {**good, "sub": ""},
        "blank sub": {**good, "sub": " "},
        "number as sub": {**good, "sub": 7},
        "text as exp": {**good, "exp": str(now_s + FAR_S)},
        "text as iat": {**good, "iat": "1"},
        "not yet": {**good, "nbf": now_s + 1800},
        "expires before it begins": {**good, "exp": now_s - 5, "nbf": now_s},
        "expires before it is issued": {**good, "exp": now_s - 5, "iat": now_s},
        "negative iat": {**good, "iat": -1},
        "empty scope": {**good, "scope": ["read", ""]},
        "blank scope": {**good, "scope": " "},
        "scope twice": {**good, "scope": ["read", " read"]},
        "nothing": {},
    }
    for name, each in claims.items():
        _shown(talk, name, signed(each))
    for name, text in {
        "good RS256": signed(good, "RS256"),
        "good PS256 of a bound key": signed(good, "PS256-bound"),
        "good EdDSA": signed(good, "EdDSA"),
        "good without kid": signed(good, kid=None),
        "good RS512 of a free key": signed(good, "RS256", alg="RS512"),
        "another key": signed(good, "ES256-other", kid="ES256"),
        "an unknown kid": signed(good, kid="unknown"),
        "a kid of another kind": signed(good, kid="RS256"),
        "RS256 of a bound key": signed(good, "PS256-bound", alg="RS256"),
        "a changed letter": _changed(signed(good)),
        "no signature": signed(good).rpartition(".")[0] + ".",
        "two parts": signed(good).rpartition(".")[0],
        "none": unsigned(good),
        "none with a signature": unsigned(good, signature="abc"),
        "none with a kid": unsigned(good, {"alg": "none", "kid": "ES256"}),
        "HS256 with a public key": confused(good),
        "no alg": unsigned(good, {"kid": "ES256"}, "abc"),
        "extensions to be understood": signed(good, crit=["x"], x=1),
        "no JSON": signed(b"{"),
        "no object": signed([]),
        "a word": "abc",
    }.items():
        _shown(talk, name, text)


def _changed(text: str) -> str:
    """The same with another content."""
    header, content, signature = text.split(".")
    return f"{header}.{content[:-4]}{content[-4:].swapcase()}.{signature}"


MESSAGES: Final[Mapping[str, bytes]] = {
    "good": b"n,,\x01auth=Bearer %s\x01\x01",
    "good small letters": b"n,,\x01auth=bearer %s\x01\x01",
    "good blanks": b"n,,\x01auth=Bearer   %s\x01\x01",
    "good extensions": b"n,,\x01a=1\x01auth=Bearer %s\x01b=c=d e\t\x01\x01",
    "good authzid": b"n,a=alice,\x01auth=Bearer %s\x01\x01",
    "good twice": b"n,,\x01auth=Bearer abc\x01auth=Bearer %s\x01\x01",
    "another authzid": b"n,a=bob,\x01auth=Bearer %s\x01\x01",
    "escapes in the authzid": b"n,a=al=2Cice,\x01auth=Bearer %s\x01\x01",
    "wrong escapes in the authzid": b"n,a=al=2cice,\x01auth=Bearer %s\x01\x01",
    "empty authzid": b"n,a=,\x01auth=Bearer %s\x01\x01",
    "no ASCII": "n,a=ü,\x01".encode() + b"auth=Bearer %s\x01\x01",
    "channel binding possible": b"y,,\x01auth=Bearer %s\x01\x01",
    "channel binding": b"p=tls-unique,,\x01auth=Bearer %s\x01\x01",
    "another scheme": b"n,,\x01auth=Basic %s\x01\x01",
    "no scheme": b"n,,\x01auth=%s\x01\x01",
    "no auth": b"n,,\x01a=%s\x01\x01",
    "no pairs": b"n,,\x01\x01",
    "a capital": b"n,,\x01Auth=Bearer %s\x01\x01",
    "a digit in a name": b"n,,\x01a1=b\x01auth=Bearer %s\x01\x01",
    "an empty value": b"n,,\x01a=\x01auth=Bearer %s\x01\x01",
    "no end": b"n,,\x01auth=Bearer %s\x01",
    "more after the end": b"n,,\x01auth=Bearer %s\x01\x01\x01",
    "padding": b"n,,\x01auth=Bearer %s=\x01\x01",
    "abort": ABORT,
    "empty": b"",
    "PLAIN": b"\0alice\0alice-secret",
}


def messages(talk: OAuthBearerTalk) -> None:
    """The first message, in requests of all versions and bare."""
    now_s = talk.now_s()
    text = unsigned({"sub": "alice", "exp": now_s + FAR_S}).encode()
    for name, pattern in MESSAGES.items():
        message = pattern.replace(b"%s", text)
        for version in (0, 1, 2):
            talk.say(
                f"{name} v{version}",
                partial(talk.handshake, NAME),
                partial(talk.send, message, version),
                talk.serves,
            )
        talk.say(
            f"{name} bare",
            partial(talk.handshake, NAME, 0),
            partial(talk.bare_token, message),
            talk.serves,
        )


def after_an_error(talk: OAuthBearerTalk) -> None:
    """What a client says once it knows that its token is not valid."""
    now_s = talk.now_s()
    good = unsigned({"sub": "alice", "exp": now_s + FAR_S})
    begun = (partial(talk.handshake, NAME), partial(talk.show, "abc"))
    ways: Mapping[str, Callable[[], str]] = {
        "aborts": partial(talk.send, ABORT),
        "aborts in an older version": partial(talk.send, ABORT, 0),
        "aborts twice": partial(talk.send, ABORT * 2),
        "says nothing": partial(talk.send, b""),
        "shows another bad one": partial(talk.show, "def"),
        "shows a good one": partial(talk.show, good),
        "goes on": talk.serves,
        "chooses again": partial(talk.handshake, NAME),
    }
    for name, way in ways.items():
        talk.say(name, *begun, way, partial(talk.send, ABORT))
    bare = (
        partial(talk.handshake, NAME, 0),
        partial(talk.bare_token, b"n,,\x01auth=Bearer a\x01\x01"),
    )
    talk.say("aborts bare", *bare, partial(talk.bare_token, ABORT), talk.serves)


def renewed(talk: OAuthBearerTalk) -> None:
    """A session ends with its token, or sooner, and is renewed by the same user."""
    now_s = talk.now_s()

    def of(user: str, lasts_s: int) -> str:
        return unsigned({"sub": user, "exp": now_s + lasts_s})

    choose = partial(talk.handshake, NAME)
    for listener in ("LOGIN", "AGAIN"):
        talk.listener = listener
        for lasts_s in (FAR_S // 2, FAR_S * 2):
            first = (choose, partial(talk.show, of("alice", lasts_s)), talk.serves)
            label = f"{listener} {lasts_s} s, renewed by"
            talk.say(f"{label} the same", *first, choose, partial(talk.show, of("alice", FAR_S)))
            talk.say(f"{label} another", *first, choose, partial(talk.show, of("bob", FAR_S)))
            abort = partial(talk.send, ABORT)
            talk.say(f"{label} a bad one", *first, choose, partial(talk.show, "abc"), abort)


CONVERSATIONS: tuple[Conversation, ...] = (
    unsecured_tokens,
    unsecured_scopes,
    signed_tokens,
    messages,
    after_an_error,
    renewed,
)
