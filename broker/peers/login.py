"""How this broker logs in to another one: SaslHandshake, then the mechanism's tokens."""

from collections.abc import Awaitable, Callable
from typing import Final

from odradek.protocol.messages.k17_sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from odradek.protocol.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.schema import Message

from ..sasl.client import Credentials, ServerRefused
from .connection import PeerFailed

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2
RENEW_AFTER: Final = 0.85
"""The part of a login's time after which this broker logs in again.  Kafka: 0.85 to 0.95."""


async def log_in(
    ask: Callable[[Message, int], Awaitable[Message]], credentials: Credentials
) -> float | None:
    """Log in; return after how many seconds to do it again, or None: never.  Raises: PeerFailed."""
    mechanism = credentials.mechanism
    chosen = await ask(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION)
    assert isinstance(chosen, SaslHandshakeResponse)
    if chosen.error_code:
        offered = ", ".join(chosen.mechanisms)
        raise PeerFailed(f"does not let brokers log in by {mechanism}, it offers {offered}")
    lasts_ms = 0
    try:
        machine = await credentials.begin()
        token = machine.first()
        while not machine.is_complete:
            answer = await ask(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION)
            assert isinstance(answer, SaslAuthenticateResponse)
            if answer.error_code:
                raise PeerFailed(
                    f"refuses the login of this broker as {credentials.user!r}: "
                    f"{answer.error_message}"
                )
            lasts_ms = answer.session_lifetime_ms
            token = machine.step(bytes(answer.auth_bytes))
    except ServerRefused as refused:
        raise PeerFailed(str(refused)) from None
    return RENEW_AFTER * lasts_ms / 1000 if lasts_ms > 0 else None
