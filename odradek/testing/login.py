"""The login of the fixture's own connections."""

from odradek.broker.sasl.client import ServerRefused
from odradek.broker.sasl.client_login import HANDSHAKE_VERSION, ClientLogin, check_handshake
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

AUTHENTICATE_VERSION = 0  # later ones tell how long the login lasts


def log_in(connection: Connection, access: ClientAccess) -> None:
    """Log in, if the listener wants it.  Raises: OSError, also if the broker refuses."""
    if access.mechanism is None:
        return
    choice = SaslHandshakeRequest(mechanism=access.mechanism)
    chosen = connection.ask(choice, HANDSHAKE_VERSION, SaslHandshakeResponse)
    try:
        check_handshake(access.mechanism, chosen.error_code, chosen.mechanisms)
        login = ClientLogin(access.begin_login())
        while not login.is_complete:
            request = SaslAuthenticateRequest(auth_bytes=login.token)
            answer = connection.ask(request, AUTHENTICATE_VERSION, SaslAuthenticateResponse)
            login.take(answer.error_code, answer.error_message, answer.auth_bytes)
    except ServerRefused as error:
        raise PermissionError(f"the broker {error}") from None
