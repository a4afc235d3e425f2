"""Where hostile bytes are sent to: a listener of each kind, and how a connection to it begins."""

import ssl
from dataclasses import dataclass
from typing import Final

from odradek.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from tests.support.client import Client

USER: Final = "alice"


@dataclass(frozen=True, slots=True)
class Listener:
    """A port, with TLS or without, with logins by PLAIN or without."""

    port: int
    tls: ssl.SSLContext | None = None
    password: str | None = None

    async def connect(self) -> Client:
        """A connection that may send requests."""
        client = await self.connect_only()
        if self.password is not None:
            await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            token = f"\0{USER}\0{self.password}".encode()
            answer = await client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
            assert answer.error_code == 0, answer.error_message
        return client

    async def connect_only(self) -> Client:
        """A connection on which nobody has logged in."""
        return await Client.connect(self.port, ssl=self.tls)
