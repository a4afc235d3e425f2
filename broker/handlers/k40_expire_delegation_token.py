"""ExpireDelegationToken 0-2: refused, as delegation tokens are not built."""

from odradek.protocol.messages.k40_expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

from ..net.call import Call
from ..node import Node
from .token_refusals import refusal_of_tokens

NO_TIME = -1


def handle(
    request: ExpireDelegationTokenRequest, call: Call, node: Node
) -> ExpireDelegationTokenResponse:
    """Say why there is no such token."""
    code = refusal_of_tokens(call, node)
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME)
