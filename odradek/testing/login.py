"""The login of the fixture's own connections."""

from odradek.broker.sasl.client import ServerRefused
from odradek.protocol.errors import error_name
from odradek.protocol.messages.k17_sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from odradek.protocol.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

from .access import ClientAccess
from .connection import Connection

HANDSHAKE_VERSION = 1
AUTHENTICATE_VERSION = 0  # later ones tell how long the login lasts


def log_in(connection: Connection, access: ClientAccess) -> None:
    """Log in, if the listener wants it.  Raises: OSError, also if the broker refuses."""
    if access.mechanism is None:
        return
    chosen = SaslHandshakeRequest(mechanism=access.mechanism)
    offered = connection.ask(chosen, HANDSHAKE_VERSION, SaslHandshakeResponse)
    if offered.error_code:
        raise PermissionError(f"the broker does not offer {access.mechanism}")
    try:
        client = access.begin_login()
        token = client.first()
        while not client.is_complete:
            request = SaslAuthenticateRequest(auth_bytes=token)
            answer = connection.ask(request, AUTHENTICATE_VERSION, SaslAuthenticateResponse)
            if answer.error_code:
                reason = answer.error_message or error_name(answer.error_code)
                raise PermissionError(f"the broker refuses the login: {reason}")
            token = client.step(answer.auth_bytes)
    except ServerRefused as error:
        raise PermissionError(f"the broker {error}") from None
