"""SaslAuthenticate (API key 36): a token of the mechanism that SaslHandshake has chosen.

Source: SaslAuthenticateRequest.json, SaslAuthenticateResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, binary, int16, int64, string


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    """The client's token."""

    auth_bytes: bytes = binary("0+")


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    """The broker's token; after the last one, how long the login lasts (0: for ever)."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+")
    session_lifetime_ms: int = int64("1+", default=0)
