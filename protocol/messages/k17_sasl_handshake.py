"""SaslHandshake (API key 17): choose how to log in.

With version 0, the tokens of the mechanism follow as bare frames; with 1, in SaslAuthenticate.

Source: SaslHandshakeRequest.json, SaslHandshakeResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, array, int16, string


class SaslHandshakeRequest(Message, api_key=17, versions="0-1", flexible="none"):
    """The mechanism that the client wants."""

    mechanism: str = string("0+")


class SaslHandshakeResponse(Message, api_key=17, versions="0-1", flexible="none"):
    """The mechanisms that the listener offers."""

    error_code: int = int16("0+")
    mechanisms: list[str] = array("string", "0+")
