"""RenewDelegationToken (API key 39): lengthens the life of a delegation token.

Source: RenewDelegationTokenRequest.json, RenewDelegationTokenResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, binary, int16, int32, int64


class RenewDelegationTokenRequest(Message, api_key=39, versions="0-2", flexible="2+"):
    """The token, and for how long from now."""

    hmac: bytes = binary("0+")
    renew_period_ms: int = int64("0+")


class RenewDelegationTokenResponse(Message, api_key=39, versions="0-2", flexible="2+"):
    """When the token ends."""

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
