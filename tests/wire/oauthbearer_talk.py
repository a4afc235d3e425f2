"""One side of a conversation by which a client logs in with a token, and the servers for it."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from odradek.broker.sasl.oauthbearer import ClientFirst
from odradek.broker.settings.sasl import SIGNED_HANDLER
from odradek.jaas import OAUTHBEARER_MODULE
from tests.kafka.apache import Kafka39, quick_broker
from tests.kafka.process import free_port
from tests.support.tokens import jwk, jwks
from tests.wire.sasl_talk import SaslTalk
from tests.wire.servers import Server, make_server

MINUTE_MS: Final = 60_000
NAME: Final = "OAUTHBEARER"
LISTENERS: Final = ("LOGIN", "SCOPED", "SIGNED", "AGAIN")
"""For unsecured tokens, for those with scopes, for signed ones; and for logins again and again."""
ALLOWED: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
LASTS_MS: Final = 3_600_000
_LOGIN: Final = f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="broker"'
_SCOPED: Final = (
    f'{_LOGIN} unsecuredValidatorRequiredScope="read write" unsecuredValidatorScopeClaimName="scp" '
    'unsecuredValidatorPrincipalClaimName="name" unsecuredValidatorAllowableClockSkewMs="60000"'
)
_SIGNED: Final = "listener.name.signed.oauthbearer"
SETTINGS: Final[Mapping[str, str]] = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,"
    + ",".join(f"{name}:SASL_PLAINTEXT" for name in LISTENERS),
    "sasl.enabled.mechanisms": NAME,
    "connection.failed.authentication.delay.ms": "0",
    "sasl.server.max.receive.size": "100000",
    "listener.name.again.connections.max.reauth.ms": str(LASTS_MS),
    **{
        f"listener.name.{name.lower()}.oauthbearer.sasl.jaas.config": (
            f"{_SCOPED if name == 'SCOPED' else _LOGIN};"
        )
        for name in LISTENERS
    },
    f"{_SIGNED}.sasl.server.callback.handler.class": SIGNED_HANDLER,
    f"{_SIGNED}.sasl.oauthbearer.expected.audience": "kafka,others",
    f"{_SIGNED}.sasl.oauthbearer.expected.issuer": "https://issuer.test",
}
KEYS: Final = ("RS256", "ES256", "PS256-bound", "EdDSA")


def make_oauthbearer_server(target: str, directory: Path, settings: Mapping[str, str]) -> Server:
    """A broker with all listeners of SETTINGS, not started."""
    directory.mkdir(parents=True, exist_ok=True)
    keys = directory / "keys.json"
    shared = {"kty": "oct", "kid": "shared", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"}
    bound = jwk("PS256-bound", alg="PS256", use="sig")
    keys.write_bytes(jwks(jwk("RS256"), jwk("ES256", use="sig"), bound, jwk("EdDSA"), shared))
    url = f"file://{keys}"
    server: Any
    if target == "odradek":
        server = make_server(target, directory, {**settings, ALLOWED: url})
    else:
        options = [*quick_broker("3.9.2"), f"-D{ALLOWED}={url}"]
        server = Kafka39(directory, settings, jvm_options=options)
    server.settings[f"{_SIGNED}.sasl.oauthbearer.jwks.endpoint.url"] = url
    ports = {"PLAINTEXT": server.port, **{name: free_port() for name in LISTENERS}}
    server.settings["listeners"] = ",".join(
        f"{name}://{server.host}:{port}" for name, port in ports.items()
    )
    return server  # type: ignore[no-any-return]


class OAuthBearerTalk(SaslTalk):
    """A conversation on these listeners."""

    def now_s(self) -> int:
        """The clock, for tokens."""
        return int(time.time())

    def show(self, text: str, authzid: str = "", **extensions: str) -> str:
        """Send a token; how it is answered."""
        return self.send(ClientFirst(text, authzid, extensions).encode())

    def send(self, message: bytes, version: int = 2) -> str:
        """Send a message of OAUTHBEARER; how it is answered, and with what."""
        said, data = self.token(message, version)
        if ", lasts " in said:
            said, _, lasts = said.partition(", lasts ")
            # A session is as long as its token, less what has passed since it was made.
            said += f", lasts {round(int(lasts.split()[0]) / MINUTE_MS) * MINUTE_MS} ms"
        return f"{said} {data.decode()}" if data else said
