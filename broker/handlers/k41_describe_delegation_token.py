"""DescribeDelegationToken 0-3: refused, as delegation tokens are not built."""

from odradek.protocol.messages.k41_describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

from ..net.call import Call
from ..node import Node
from .token_refusals import refusal_of_tokens


def handle(
    request: DescribeDelegationTokenRequest, call: Call, node: Node
) -> DescribeDelegationTokenResponse:
    """Say why there are no tokens."""
    return DescribeDelegationTokenResponse(error_code=refusal_of_tokens(call, node))
