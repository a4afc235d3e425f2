"""DescribeDelegationToken (API key 41): the delegation tokens of some users, or of all.

Source: DescribeDelegationTokenRequest.json, DescribeDelegationTokenResponse.json of Apache Kafka
3.9.2.
"""

from ..schema import Message, Struct, array, binary, int16, int32, int64, string


class DescribeDelegationTokenOwner(Struct):
    """Whose tokens to describe."""

    principal_type: str = string("0+")
    principal_name: str = string("0+")


class DescribeDelegationTokenRequest(Message, api_key=41, versions="0-3", flexible="2+"):
    """The owners; null: all."""

    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, "0+", nullable="0+"
    )


class DescribedDelegationTokenRenewer(Struct):
    """Who may renew a token."""

    principal_type: str = string("0+")
    principal_name: str = string("0+")


class DescribedDelegationToken(Struct):
    """One token."""

    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64("0+")
    expiry_timestamp: int = int64("0+")
    max_timestamp: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = binary("0+")
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer, "0+")


class DescribeDelegationTokenResponse(Message, api_key=41, versions="0-3", flexible="2+"):
    """The tokens."""

    error_code: int = int16("0+")
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken, "0+")
    throttle_time_ms: int = int32("0+")
