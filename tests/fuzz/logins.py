"""Requests of clients that do not log in, or not as they should, in random orders."""

import asyncio
import random
from collections import Counter
from typing import Final

from odradek.protocol.messages.k03_metadata import MetadataRequest
from odradek.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.schema import Message
from tests.support.connections import read_frame
from tests.support.frames import framed, request_bytes
from tests.support.tokens import signed, unsigned

from .frames import Frames
from .listener import Listener

TOGETHER: Final = 200
"""Many, as most of them wait: a login that has failed is answered late."""
WAITS_S: Final = 0.2
BREACH_ID: Final = 0x7FFFFFFE
BREACH: Final = framed(request_bytes(MetadataRequest(), 0, correlation_id=BREACH_ID))
"""Whoever gets an answer to this has logged in."""
MECHANISMS: Final = (
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "GSSAPI",
    "",
    "plain",
)
CLAIMS: Final = {"sub": "alice", "iat": 1, "exp": 9_999_999_999}
JWTS: Final = (
    *("", "a", "a.b.c", "e30.e30.", unsigned(CLAIMS), unsigned(CLAIMS, {"alg": "ES256"}, "abc")),
    *(signed(CLAIMS, "ES256-other"), signed(CLAIMS, "ES256-other", kid="ES256")),
    *(unsigned(b"[" * 5000, b"[" * 5000), unsigned({}, {"alg": 1, "kid": []}, "a")),
)
TOKENS: Final = (
    *(f"n,,\x01auth=Bearer {text}\x01\x01".encode() for text in JWTS),
    *(b"\x01", b"n,,\x01\x01", b"n,a=eve,\x01auth=Bearer a\x01b=c\x01\x01"),
    *(b"", b"\0", b"\0\0", b"\0alice\0", b"\0alice\0guess", b"alice\0alice\0guess", b"\0\0guess"),
    *(b"n,,n=alice,r=nonce", b"n,,n=eve,r=nonce", b"y,,n=alice,r=n", b"p=tls,,n=alice,r=n"),
    *(b"n,a=bob,n=alice,r=n", b"c=biws,r=nonce,p=AAAA", b"c=biws,r=,p=", b"n,,n=a=ZZ,r=n", b"\xff"),
)


class LoginSender:
    """Opens so many connections to a listener with SASL, and logs in wrongly on each."""

    def __init__(self, seed: int, frames: Frames, listener: Listener, count: int) -> None:
        self.counts: Counter[str] = Counter()
        """`breaches` must stay 0."""
        self._random = random.Random(seed)
        self._frames = frames
        self._listener = listener
        self._count = count

    async def run(self) -> None:
        """Send everything."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(TOGETHER):
                tasks.create_task(self._send_some())

    async def _send_some(self) -> None:
        while self.counts["orders"] < self._count:
            self.counts["orders"] += 1
            client = await self._listener.connect_only()
            pieces = [self._piece() for _ in range(self._random.choice((1, 2, 3, 3, 4, 6)))]
            client.send_bytes(b"".join(pieces) + BREACH)
            try:
                async with asyncio.timeout(WAITS_S):
                    while True:
                        answer = await read_frame(client.reader)
                        self.counts["answers"] += 1
                        is_breach = answer[:4] == BREACH_ID.to_bytes(4, "big")
                        self.counts["breaches"] += is_breach
            except (asyncio.IncompleteReadError, ConnectionError):
                self.counts["hang-ups"] += 1
            except TimeoutError:
                self.counts["waits"] += 1
            client.abort()

    def _piece(self) -> bytes:
        """A request of a login, a bare token, or something hostile."""
        choice = self._random
        token = choice.choice((*TOKENS, choice.randbytes(20)))
        if choice.random() < 0.1:
            return framed(token)
        if choice.random() < 0.1:
            return self._frames.next().data
        request, versions = choice.choice(self._requests(token))
        return framed(request_bytes(request, choice.randrange(versions)))

    def _requests(self, token: bytes) -> tuple[tuple[Message, int], ...]:
        mechanism = self._random.choice((*MECHANISMS, "PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"))
        return (
            (SaslHandshakeRequest(mechanism=mechanism), 2),
            (SaslAuthenticateRequest(auth_bytes=token), 3),
            (ApiVersionsRequest(), 4),
        )
