"""RenewDelegationToken 0-2: refused, as delegation tokens are not built."""

from odradek.protocol.messages.k39_renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

from ..net.call import Call
from ..node import Node
from .token_refusals import refusal_of_tokens

NO_TIME = -1


def handle(
    request: RenewDelegationTokenRequest, call: Call, node: Node
) -> RenewDelegationTokenResponse:
    """Say why there is no such token."""
    code = refusal_of_tokens(call, node)
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME)
