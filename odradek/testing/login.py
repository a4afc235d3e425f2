"""The login of the fixture's own connections."""

import secrets

from odradek.broker.sasl.client import ClientMechanism, ServerRefused
from odradek.broker.sasl.client_mechanisms import logins_of
from odradek.client_configs import OAUTHBEARER, Access
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k17_sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from odradek.protocol.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

from .connection import Connection

HANDSHAKE_VERSION = 1
AUTHENTICATE_VERSION = 0  # later ones tell how long the login lasts
NONCE_BYTES = 20


def log_in(connection: Connection, access: Access) -> None:
    """Log in, if the listener wants it.  Raises: OSError, also if the broker refuses."""
    if access.mechanism is None:
        return
    chosen = SaslHandshakeRequest(mechanism=access.mechanism)
    offered = connection.ask(chosen, HANDSHAKE_VERSION, SaslHandshakeResponse)
    if offered.error_code:
        raise PermissionError(f"the broker does not offer {access.mechanism}")
    client = _begin(access.mechanism, access)
    token = client.first()
    while not client.is_complete:
        request = SaslAuthenticateRequest(auth_bytes=token)
        answer = connection.ask(request, AUTHENTICATE_VERSION, SaslAuthenticateResponse)
        if answer.error_code:
            reason = answer.error_message or ErrorCode(answer.error_code).name
            raise PermissionError(f"the broker refuses the login: {reason}")
        try:
            token = client.step(answer.auth_bytes)
        except ServerRefused as error:
            raise PermissionError(f"the broker {error}") from None


def _begin(mechanism: str, access: Access) -> ClientMechanism:
    if mechanism == OAUTHBEARER:
        from odradek.broker.sasl.client_oauthbearer import OAuthBearerClient
        from odradek.token_providers import new_token

        return OAuthBearerClient(new_token(access.username))
    return logins_of(mechanism, access.username, access.password, _nonce)()


def _nonce() -> str:
    return secrets.token_urlsafe(NONCE_BYTES)
