"""One side of a conversation by which a client logs in, and the servers for it."""

import itertools
import struct
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from odradek.broker.sasl import scram
from odradek.broker.sasl.scram_messages import ClientFirst, ServerFirst
from odradek.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tests.kafka.process import free_port
from tests.support.connections import HungUp, RawConnection
from tests.support.scram import answer_to
from tests.wire.servers import Server, make_server
from tests.wire.talk import CLOSED, DEADLINE_S, Talk

LISTENERS: Final = ("LOGIN", "AGAIN")
"""Where clients must log in: once, or again and again."""
LASTS_MS: Final = 1500
PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *scram.MECHANISMS)
USERS: Final = {"alice": "alice-secret", "bob": "bob, =secret"}
PLAIN_USERS: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required " + (
    "".join(f'user_{user}="{password}" ' for user, password in USERS.items()) + 'user_none="";'
)
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SETTINGS: Final[Mapping[str, str]] = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,"
    + ",".join(f"{name}:SASL_PLAINTEXT" for name in LISTENERS),
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "connection.failed.authentication.delay.ms": "0",
    "sasl.server.max.receive.size": "10000",
    "listener.name.again.connections.max.reauth.ms": str(LASTS_MS),
    **{
        f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config": (
            PLAIN_USERS if mechanism == PLAIN else SCRAM_MODULE
        )
        for name in LISTENERS
        for mechanism in MECHANISMS
    },
}
SALT: Final = b"salt"
ITERATIONS: Final = 4096
NONCE: Final = "client-nonce"


def make_sasl_server(target: str, directory: Path, settings: Mapping[str, str]) -> Server:
    """A broker with all listeners of SETTINGS, not started."""
    server: Any = make_server(target, directory, settings)
    ports = {"PLAINTEXT": server.port, **{name: free_port() for name in LISTENERS}}
    server.settings["listeners"] = ",".join(
        f"{name}://{server.host}:{port}" for name, port in ports.items()
    )
    return server  # type: ignore[no-any-return]


def port_of(server: Any, listener: str) -> int:
    """The port of one of its listeners."""
    ends = (end.split("://") for end in server.settings["listeners"].split(","))
    return int(dict(ends)[listener].rpartition(":")[2])


class SaslTalk(Talk):
    """A conversation on the listeners with SASL; every text that a client is shown is noted."""

    listener = "LOGIN"

    @property
    def connection(self) -> RawConnection:
        """The connection in use; a new one after the broker has closed it."""
        if self._connection is None:
            port = port_of(self.server, self.listener)
            self._connection = RawConnection(self.server.host, port)
        return self._connection

    # What a client says, and how it is answered: a text that is the same for both brokers.

    def versions(self, version: int = 3, name: str = "odradek-tests") -> str:
        """Ask for ApiVersions."""
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        answer = self.exchange(request, version)
        if answer is None:
            return CLOSED
        return f"ApiVersions: code {answer.error_code}"

    def handshake(self, mechanism: str, version: int = 1) -> str:
        """Choose a mechanism."""
        answer = self.exchange(SaslHandshakeRequest(mechanism=mechanism), version)
        if answer is None:
            return CLOSED
        return f"SaslHandshake: code {answer.error_code}, {','.join(sorted(answer.mechanisms))}"

    def token(self, token: bytes, version: int = 2) -> tuple[str, bytes | None]:
        """Send a token; return how it is answered, and the broker's token."""
        answer = self.exchange(SaslAuthenticateRequest(auth_bytes=token), version)
        if answer is None:
            return CLOSED, None
        lasts = f", lasts {answer.session_lifetime_ms} ms" if answer.session_lifetime_ms else ""
        text = f"SaslAuthenticate: code {answer.error_code} {answer.error_message!r}{lasts}"
        return text, bytes(answer.auth_bytes)

    def bare_token(self, token: bytes) -> tuple[str, bytes | None]:
        """The same without a request around the token."""
        frame = self.ask_frame(token)
        return (CLOSED, None) if frame is None else ("a bare token", frame)

    def log_in(
        self,
        mechanism: str,
        user: str = "alice",
        password: str | None = None,
        *,
        version: int | None = 2,
    ) -> str:
        """Send the tokens of a login, in version `version` or bare (None)."""

        def say(token: bytes) -> tuple[str, bytes | None]:
            return self.bare_token(token) if version is None else self.token(token, version)

        secret = USERS[user] if password is None else password
        if mechanism not in scram.MECHANISMS:
            return say(f"\0{user}\0{secret}".encode())[0]
        family = scram.MECHANISMS[mechanism]
        first = ClientFirst(name=user, nonce=NONCE)
        said, challenge = say(first.encode())
        if not challenge:
            return said
        found = ServerFirst.parse(challenge)
        assert found.nonce.startswith(NONCE)
        assert found.nonce != NONCE
        final, salted, signed = answer_to(family, first, found, secret)
        said, signature = say(final)
        if signature:
            key = scram.server_key(family, salted)
            right = b"v=" + b64encode(scram.server_signature(family, key, signed))
            said += f", signature is right: {signature == right}"
        return f"{found.iterations} iterations; {said}"

    def serves(self) -> str:
        """Whether the broker takes other requests on this connection."""
        probe = struct.pack(">hhihi", 3, 1, next(self._correlation_ids), -1, 0)
        return CLOSED if self.ask_frame(probe) is None else "serves"

    def say(self, label: str, *steps: Callable[[], Any]) -> None:
        """Take steps on a connection of its own until it is closed; note how they are answered."""
        self.close()
        said = []
        for step in steps:
            answer = step()
            said.append(answer if isinstance(answer, str) else answer[0])
            if said[-1] == CLOSED:
                break
        self.note(label, list(said))
        self.close()

    def raw(self, data: bytes) -> str:
        """Send bytes as they are."""
        try:
            self.connection.send(data)
            self.connection.read_frame()
        except HungUp:
            self.close()
            return CLOSED
        return "an answer"

    # SCRAM users.

    def make_users(self) -> None:
        """Have all users know SCRAM, for both mechanisms."""
        self.ask_plaintext(
            AlterUserScramCredentialsRequest(
                upsertions=[
                    ScramCredentialUpsertion(
                        name=user,
                        mechanism=mechanism.number,
                        iterations=ITERATIONS,
                        salt=SALT,
                        salted_password=scram.salted_password(
                            mechanism, password, salt=SALT, iterations=ITERATIONS
                        ),
                    )
                    for user, password in USERS.items()
                    for mechanism in scram.MECHANISMS.values()
                ]
            ),
            0,
        )
        deadline = time.monotonic() + DEADLINE_S
        for user, mechanism in itertools.product(USERS, scram.MECHANISMS):
            while True:  # Kafka learns of its users when it looks into ZooKeeper
                self.close()
                self.handshake(mechanism)
                if "code 0" in self.log_in(mechanism, user):
                    break
                assert time.monotonic() < deadline, f"{user} cannot log in"
        self.close()

    def ask_plaintext(self, request: Any, version: int) -> Any:
        """Ask on the listener where nobody logs in."""
        with RawConnection(self.server.host, self.server.port) as connection:
            return connection.exchange(request, version)
