"""How this broker logs in to another one: SaslHandshake, then the mechanism's tokens."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from odradek.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.schema import Message

from ..sasl.client import Credentials, ServerRefused
from ..sasl.client_login import HANDSHAKE_VERSION, ClientLogin, check_handshake
from .connection import PeerFailed

AUTHENTICATE_VERSION: Final = 2
RENEW_AFTER: Final = 0.85
"""The part of a login's time after which this broker logs in again.  Kafka: 0.85 to 0.95."""


async def log_in(
    ask: Callable[[Message, int], Awaitable[Any]], credentials: Credentials
) -> float | None:
    """Log in; return after how many seconds to do it again, or None: never.  Raises: PeerFailed."""
    mechanism = credentials.mechanism
    chosen = await ask(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION)
    lasts_ms = 0
    try:
        check_handshake(mechanism, chosen.error_code, chosen.mechanisms)
        refusal = f"refuses the login of this broker as {credentials.user!r}"
        login = ClientLogin(await credentials.begin(), refusal)
        while not login.is_complete:
            request = SaslAuthenticateRequest(auth_bytes=login.token)
            answer = await ask(request, AUTHENTICATE_VERSION)
            login.take(answer.error_code, answer.error_message, answer.auth_bytes)
            lasts_ms = answer.session_lifetime_ms
    except ServerRefused as refused:
        raise PeerFailed(str(refused)) from None
    return RENEW_AFTER * lasts_ms / 1000 if lasts_ms > 0 else None
