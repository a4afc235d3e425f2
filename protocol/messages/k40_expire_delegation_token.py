"""ExpireDelegationToken (API key 40): ends the life of a delegation token, or shortens it.

Source: ExpireDelegationTokenRequest.json, ExpireDelegationTokenResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, binary, int16, int32, int64


class ExpireDelegationTokenRequest(Message, api_key=40, versions="0-2", flexible="2+"):
    """The token, and for how long from now; negative: not at all."""

    hmac: bytes = binary("0+")
    expiry_time_period_ms: int = int64("0+")


class ExpireDelegationTokenResponse(Message, api_key=40, versions="0-2", flexible="2+"):
    """When the token ends."""

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
