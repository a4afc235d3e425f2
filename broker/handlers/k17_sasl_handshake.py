"""SaslHandshake 0-1: refused, as nobody logs in here.

Where clients must log in, the first one does not get here, and neither does one that begins another
login before the present one expires: see `net/authenticator.py`.
"""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k17_sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from ..net.call import Call
from ..node import Node


def handle(request: SaslHandshakeRequest, call: Call, node: Node) -> SaslHandshakeResponse:
    """Answer that this is not the time for it."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
