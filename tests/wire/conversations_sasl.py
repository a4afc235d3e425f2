"""What is said by clients that log in, that fail to, and that say it in another order."""

import itertools
import struct
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from odradek.broker.sasl import scram
from odradek.broker.sasl.scram_messages import ClientFirst, ServerFirst
from odradek.protocol.messages.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from odradek.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.support.scram import answer_to
from tests.wire.sasl_talk import (
    LASTS_MS,
    MECHANISMS,
    NONCE,
    PLAIN,
    USERS,
    SaslTalk,
)

Conversation = Callable[[SaslTalk], None]
SHA_256: Final = scram.SHA_256.name
OF_LOGINS: Final = (17, 18, 36)
KEYS_END: Final = 82  # of Kafka 3.9


def _orders(mechanism: str) -> Conversation:
    """All orders of the three APIs, up to three of them, with and without requests for tokens."""

    def talk_about(talk: SaslTalk) -> None:
        talk.make_users()
        steps: Mapping[str, Callable[[], str]] = {
            "versions": talk.versions,
            "handshake": partial(talk.handshake, mechanism),
            "old handshake": partial(talk.handshake, mechanism, 0),
            "login": partial(talk.log_in, mechanism),
            "bare login": partial(talk.log_in, mechanism, version=None),
        }
        for count in (1, 2, 3):
            for order in itertools.product(steps, repeat=count):
                if (
                    "bare login" in order
                    and "old handshake" not in order[: order.index("bare login")]
                ):
                    continue  # a frame that is no request
                talk.say(" ".join(order), *(steps[name] for name in order), talk.serves)

    return talk_about


def login_versions(talk: SaslTalk) -> None:
    """All versions of the requests, and more."""
    talk.make_users()
    for mechanism in MECHANISMS:
        for version in (0, 1, 2):
            talk.say(
                f"{mechanism} SaslAuthenticate {version}",
                partial(talk.handshake, mechanism),
                partial(talk.log_in, mechanism, version=version),
                talk.serves,
            )
        for version in (-1, 3, 99):
            talk.say(
                f"{mechanism} SaslAuthenticate {version}",
                partial(talk.handshake, mechanism),
                partial(talk.raw, _framed(struct.pack(">hhih", 36, version, 1, -1) + bytes(20))),
            )
        for version in (-1, 2, 99):
            talk.say(f"{mechanism} SaslHandshake {version}", partial(talk.raw, _handshake(version)))
    for version in (0, 1, 2, 3, 4, 5, 99):
        for name in ("good", "", "bad name"):
            talk.say(
                f"ApiVersions {version} {name}",
                partial(talk.versions, version, name) if version < 5 else partial(_newer, talk),
                partial(talk.handshake, PLAIN),
                partial(talk.log_in, PLAIN),
                talk.serves,
            )


def _handshake(version: int) -> bytes:
    body = struct.pack(">hhih", 17, version, 1, -1) + b"\0\5PLAIN"
    return struct.pack(">i", len(body)) + body


def _newer(talk: SaslTalk) -> str:
    frame = talk.ask_frame(struct.pack(">hhihb", 18, 99, 7, -1, 0) + b"\2a\2b\0")
    return "closed" if frame is None else f"code {struct.unpack_from('>h', frame, 4)[0]}"


def mechanisms_offered(talk: SaslTalk) -> None:
    """Those that a client may ask for, and others."""
    for name in (*MECHANISMS, "GSSAPI", "OAUTHBEARER", "plain", " PLAIN", "", "x" * 300, "ü"):
        for version in (0, 1):
            talk.say(
                f"{name[:20]!r} v{version}",
                talk.versions,
                partial(talk.handshake, name, version),
            )


def requests_before_login(talk: SaslTalk) -> None:
    """No other request is answered."""
    for key in (*range(KEYS_END), 16_000, -1):
        if key in OF_LOGINS:
            continue
        frame = struct.pack(">hhihb", key, 0, 1, -1, 0) + bytes(100)
        for before in ((), (talk.versions,)):
            label = f"key {key}{' after ApiVersions' * bool(before)}"
            talk.say(label, *before, partial(talk.raw, _framed(frame)))
    for name, data in {
        "nothing": b"",
        "one byte": b"\0",
        "zeros": bytes(10),
        "GSSAPI": b"\x60\x82\x01\x01" + bytes(20),
        "text": b"GET / HTTP/1.1\r\n\r\n",
    }.items():
        talk.say(f"frame of {name}", partial(talk.raw, _framed(data)))
    for name, size in {"negative": -1, "too large": 10_001, "huge": 0x16030100}.items():
        talk.say(f"size {name}", partial(talk.raw, struct.pack(">i", size) + bytes(30)))
        talk.say(
            f"size {name}, for a token",
            partial(talk.handshake, PLAIN),
            partial(talk.raw, struct.pack(">i", size) + bytes(30)),
        )


def _framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def requests_after_login(talk: SaslTalk) -> None:
    """A login that does not end cannot be repeated; larger requests are answered."""
    for mechanism in MECHANISMS:
        talk.make_users()
        talk.say(
            mechanism,
            talk.versions,
            partial(talk.handshake, mechanism),
            partial(talk.log_in, mechanism),
            talk.versions,
            partial(talk.handshake, mechanism),
            partial(talk.handshake, "unknown", 0),
            partial(talk.token, b"\0alice\0alice-secret", 0),
            partial(talk.token, b"", 2),
            talk.serves,
            partial(_large, talk),
            talk.serves,
        )


def _large(talk: SaslTalk) -> str:
    frame = struct.pack(">hhih", 3, 4, 5, -1) + struct.pack(">i", 5000)
    names = b"".join(struct.pack(">h", 4) + b"%04d" % number for number in range(5000))
    return (
        "closed" if talk.ask_frame(frame + names + b"\0") is None else "a large request is answered"
    )


PLAIN_TOKENS: Final = {
    "good": b"\0alice\0alice-secret",
    "of bob": b"\0bob\0bob, =secret",
    "with its own authzid": b"alice\0alice\0alice-secret",
    "with another authzid": b"bob\0alice\0alice-secret",
    "with an unknown authzid": b"eve\0alice\0alice-secret",
    "with another authzid and a wrong password": b"bob\0alice\0wrong",
    "wrong password": b"\0alice\0wrong",
    "password of bob": b"\0alice\0bob, =secret",
    "password and more": b"\0alice\0alice-secret ",
    "half a password": b"\0alice\0alice-",
    "unknown user": b"\0eve\0eve",
    "no user": b"\0\0alice-secret",
    "no password": b"\0alice\0",
    "no password, which is right": b"\0none\0",
    "neither": b"\0\0",
    "empty": b"",
    "one field": b"alice",
    "two fields": b"alice\0alice-secret",
    "four fields": b"\0alice\0alice-secret\0",
    "five fields": b"\0\0\0\0",
    "six fields": b"\0a\0b\0c\0d\0",
    "no UTF-8": b"\0alice\0\xff\xfe",
    "no UTF-8 in the name": b"\0\xff\0alice-secret",
    "large": b"\0alice\0" + b"x" * 9000,
}


def plain_tokens(talk: SaslTalk) -> None:
    """Each as the first token, in requests and bare."""
    for name, token in PLAIN_TOKENS.items():
        for version in (0, 1, 2):
            talk.say(
                f"{name}, v{version}",
                partial(talk.handshake, PLAIN),
                partial(talk.token, token, version),
                talk.serves,
            )
        talk.say(
            f"{name}, bare",
            partial(talk.handshake, PLAIN, 0),
            partial(talk.bare_token, token),
            talk.serves,
        )


FIRST_TOKENS: Final = {
    "good": b"n,,n=alice,r=abc",
    "with its own authzid": b"n,a=alice,n=alice,r=abc",
    "with another authzid": b"n,a=bob,n=alice,r=abc",
    "without a header": b"n=alice,r=abc",
    "channel binding possible": b"y,,n=alice,r=abc",
    "channel binding": b"p=tls-server-end-point,,n=alice,r=abc",
    "reserved": b"n,,m=x,n=alice,r=abc",
    "no name": b"n,,n=,r=abc",
    "no nonce": b"n,,n=alice,r=",
    "no such escape": b"n,,n=al=3dice,r=abc",
    "an escape": b"n,,n=bob=2C,r=abc",
    "extensions": b"n,,n=alice,r=abc,x=1,y=2",
    "bad extension": b"n,,n=alice,r=abc,x",
    "no such token": b"n,,n=alice,r=abc,tokenauth=true",
    "no token": b"n,,n=alice,r=abc,tokenauth=false",
    "no ASCII": "n,,n=ü,r=abc".encode(),
    "zero": b"n,,n=al\0ice,r=abc",
    "empty": b"",
    "PLAIN": b"\0alice\0alice-secret",
    "large": b"n,,n=alice,r=" + b"x" * 9000,
}


def scram_first_tokens(talk: SaslTalk) -> None:
    """Whether it is answered by a challenge."""
    talk.make_users()
    for name, token in FIRST_TOKENS.items():
        talk.say(name, partial(talk.handshake, SHA_256), partial(talk.token, token))


def scram_final_tokens(talk: SaslTalk) -> None:
    """What is wrong about the second token."""
    talk.make_users()
    for mechanism in scram.MECHANISMS.values():
        for name in FINAL_TOKENS:
            talk.say(
                f"{mechanism.name} {name}",
                partial(talk.handshake, mechanism.name),
                partial(_finish, talk, mechanism, name),
                talk.serves,
            )


def _finish(talk: SaslTalk, mechanism: scram.Mechanism, fault: str) -> str:
    first = ClientFirst(name="alice", nonce=NONCE)
    said, challenge = talk.token(first.encode())
    assert challenge, said
    found = ServerFirst.parse(challenge)
    good, _, _ = answer_to(mechanism, first, found, USERS["alice"])
    return talk.token(FINAL_TOKENS[fault](good, found.nonce.encode()))[0]


FINAL_TOKENS: Final[Mapping[str, Callable[[bytes, bytes], bytes]]] = {
    "good": lambda good, nonce: good,
    "half a nonce": lambda good, nonce: good.replace(nonce, NONCE.encode()),
    "longer nonce": lambda good, nonce: good.replace(nonce, nonce + b"x"),
    "other nonce": lambda good, nonce: good.replace(nonce, nonce[::-1]),
    "no channel": lambda good, nonce: good.replace(b"c=biws", b"c="),
    "other channel": lambda good, nonce: good.replace(b"c=biws", b"c=eSws"),
    "extension": lambda good, nonce: good.replace(b",p=", b",x=1,p="),
    "no proof": lambda good, nonce: good.partition(b"p=")[0] + b"p=",
    "short proof": lambda good, nonce: good.partition(b"p=")[0] + b"p=" + b64encode(b"x"),
    "long proof": lambda good, nonce: good.partition(b"p=")[0] + b"p=" + b64encode(bytes(99)),
    "wrong proof": lambda good, nonce: good[:-6] + b"AAAA" + good[-2:],
    "no base64": lambda good, nonce: good[:-6] + b"****" + good[-2:],
    "nothing after the nonce": lambda good, nonce: good.partition(b",p=")[0],
    "the first again": lambda good, nonce: b"n,,n=alice,r=client-nonce",
    "empty": lambda good, nonce: b"",
}


def scram_users_refused(talk: SaslTalk) -> None:
    """Wrong passwords, and users that are not there."""
    talk.make_users()
    for mechanism in scram.MECHANISMS:
        for name, (user, password) in {
            "wrong password": ("alice", "wrong"),
            "password of bob": ("alice", USERS["bob"]),
            "unknown user": ("eve", "eve"),
        }.items():
            for version in (0, 2, None):
                talk.say(
                    f"{mechanism} {name} v{version}",
                    partial(talk.handshake, mechanism, 0 if version is None else 1),
                    partial(talk.log_in, mechanism, user, password, version=version),
                    talk.serves,
                )


def _again(mechanism: str) -> Conversation:
    """A login that lasts for some time, and is renewed in good or bad ways."""

    def talk_about(talk: SaslTalk) -> None:
        talk.make_users()
        talk.listener = "AGAIN"
        other = next(name for name in MECHANISMS if name != mechanism)
        first = (
            talk.versions,
            partial(talk.handshake, mechanism),
            partial(talk.log_in, mechanism),
            talk.serves,
        )
        choose = partial(talk.handshake, mechanism)
        ways: Mapping[str, tuple[Callable[[], str], ...]] = {
            "renewed": (choose, partial(talk.log_in, mechanism), talk.serves),
            "renewed in an older version": (choose, partial(talk.log_in, mechanism, version=0)),
            "renewed twice": (choose, partial(talk.log_in, mechanism), choose, talk.serves),
            "renewed by bare tokens": (
                partial(talk.handshake, mechanism, 0),
                partial(talk.log_in, mechanism, version=None),
                talk.serves,
            ),
            "with ApiVersions": (talk.versions, choose, talk.versions),
            "interrupted": (choose, talk.serves),
            "by another mechanism": (
                partial(talk.handshake, other),
                partial(talk.log_in, other),
                talk.serves,
            ),
            "by an unknown mechanism": (partial(talk.handshake, "unknown"), talk.serves),
            "by another user": (choose, partial(talk.log_in, mechanism, "bob"), talk.serves),
            "by another user, bare": (
                partial(talk.handshake, mechanism, 0),
                partial(talk.log_in, mechanism, "bob", version=None),
                talk.serves,
            ),
            "by a wrong password": (
                choose,
                partial(talk.log_in, mechanism, "alice", "wrong"),
                talk.serves,
            ),
            "by a token at once": (partial(talk.log_in, mechanism), talk.serves),
        }
        for name, steps in ways.items():
            talk.say(name, *first, *steps)

    return talk_about


def login_expired(talk: SaslTalk) -> None:
    """After its time, a client may only log in again."""
    talk.listener = "AGAIN"

    def wait() -> str:
        time.sleep(LASTS_MS / 1000 + 0.05)  # the time is what this is about
        return "waited"

    first = (partial(talk.handshake, PLAIN), partial(talk.log_in, PLAIN), talk.serves, wait)
    talk.say("asks", *first, talk.serves)
    talk.say(
        "logs in",
        *first,
        partial(talk.handshake, PLAIN),
        partial(talk.log_in, PLAIN),
        talk.serves,
        partial(talk.handshake, PLAIN),
    )


def _named(name: str, conversation: Conversation) -> Conversation:
    def run(talk: SaslTalk) -> None:
        conversation(talk)

    run.__name__ = name
    return run


def scram_credentials(talk: SaslTalk) -> None:
    """Users are set, deleted and described, in good and bad ways."""

    def alter(
        label: str,
        *upsertions: tuple[str, int, int],
        deletions: Sequence[tuple[str, int]] = (),
        salted: bytes = b"s" * 32,
    ) -> None:
        request = AlterUserScramCredentialsRequest(
            upsertions=[
                ScramCredentialUpsertion(
                    name=user,
                    mechanism=number,
                    iterations=iterations,
                    salt=b"salt",
                    salted_password=salted,
                )
                for user, number, iterations in upsertions
            ],
            deletions=[
                ScramCredentialDeletion(name=user, mechanism=number) for user, number in deletions
            ],
        )
        results = talk.ask_plaintext(request, 0).results
        said = sorted(f"{each.user}: {each.error_code} {each.error_message}" for each in results)
        talk.note(label, list(said))

    def describe(label: str, *users: str, everybody: bool = False) -> None:
        names = None if everybody else [UserName(name=user) for user in users]
        answer = talk.ask_plaintext(DescribeUserScramCredentialsRequest(users=names), 0)
        said = [f"{answer.error_code} {answer.error_message}"]
        for each in answer.results:
            infos = [(info.mechanism, info.iterations) for info in each.credential_infos]
            said.append(f"{each.user}: {each.error_code} {each.error_message} {infos}")
        talk.note(label, list(said))

    odd, long = "a b,=*%/ü<default>", "x" * 300
    alter("nothing")
    alter("good", ("u", 1, 4096), ("u", 2, 16384), (odd, 1, 4096), ("<default>", 1, 5000))
    alter("long", (long, 1, 4096))
    describe("some", "u", "nobody", odd, long)
    describe("twice", "u", "v", "u", "v")
    describe("no names", "", "", "u")
    describe("no names of nodes", ".", "..")
    alter("iterations", ("v", 1, 4095), ("w", 1, 16385), ("x", 2, -1))
    alter("mechanisms", ("v", 0, 4096), ("w", 3, 1), deletions=[("x", -5), ("y", 9)])
    alter("no name", ("", 1, 4096), ("v", 1, 4096), deletions=[("", 1)])
    alter("names of directories", (".", 1, 4096), ("..", 2, 4096))
    alter("twice set", ("v", 1, 4096), ("v", 1, 5000), ("v", 2, 4096))
    alter("set and deleted", ("v", 1, 4096), deletions=[("v", 1)])
    alter("one of two", ("v", 1, 4096), ("v", 2, 1))
    alter("two faults", ("v", 1, 1), deletions=[("v", 7)])
    alter("two other faults", ("w", 1, 1), ("w", 7, 4096))
    alter("absent", deletions=[("nobody", 1), ("u", 1), ("u", 2)])
    alter("one of two absent", deletions=[("u", 1), ("u", 2)])
    alter("set beside absent", ("v", 2, 4096), deletions=[("v", 1)])
    alter("short", ("short", 1, 4096), salted=b"x")
    describe("after that", "u", "v", "w", "x", "short")
    alter(
        "cleared",
        deletions=[
            ("v", 1),
            ("short", 1),
            (odd, 1),
            ("<default>", 1),
            (long, 1),
        ],
    )


CONVERSATIONS: tuple[Conversation, ...] = (
    *(_named(f"logins_by_{name}", _orders(name)) for name in MECHANISMS),
    login_versions,
    mechanisms_offered,
    requests_before_login,
    requests_after_login,
    plain_tokens,
    scram_first_tokens,
    scram_final_tokens,
    scram_users_refused,
    scram_credentials,
    *(_named(f"renewed_by_{name}", _again(name)) for name in MECHANISMS),
    login_expired,
)
WAITING: Final = (login_expired,)
