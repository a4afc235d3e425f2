"""SaslAuthenticate 0-2: refused, as nobody logs in here: see `k17_sasl_handshake.py`."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

from ..net.call import Call
from ..node import Node


def handle(request: SaslAuthenticateRequest, call: Call, node: Node) -> SaslAuthenticateResponse:
    """Answer that this is not the time for it."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
