"""CreateDelegationToken (API key 38): a token by which somebody logs in for its owner (KIP-48).

Source: CreateDelegationTokenRequest.json, CreateDelegationTokenResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, binary, int16, int32, int64, string


class CreatableRenewers(Struct):
    """Who may renew the token."""

    principal_type: str = string("0+")
    principal_name: str = string("0+")


class CreateDelegationTokenRequest(Message, api_key=38, versions="0-3", flexible="2+"):
    """The owner, by default whoever asks, and those who may renew the token."""

    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers, "0+")
    max_lifetime_ms: int = int64("0+")


class CreateDelegationTokenResponse(Message, api_key=38, versions="0-3", flexible="2+"):
    """The token, and whose it is."""

    error_code: int = int16("0+")
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64("0+")
    expiry_timestamp_ms: int = int64("0+")
    max_timestamp_ms: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = binary("0+")
    throttle_time_ms: int = int32("0+")
