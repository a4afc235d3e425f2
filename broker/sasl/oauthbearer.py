"""The messages of OAUTHBEARER (RFC 7628), for both sides of a connection.

The client sends its token. If the server does not accept it, it answers with a JSON text that says
why; the client answers that with a single byte, and only then the login has failed. Source:
OAuthBearerClientInitialResponse and OAuthBearerSaslServer in Kafka.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

NAME: Final = "OAUTHBEARER"
ABORT: Final = b"\x01"
"""How a client answers the server's error."""
_END: Final = "\x01"
_PAIR: Final = r"[A-Za-z]++=[\x21-\x7e \t\r\n]++"
_PAIRS: Final = re.compile(
    # The authorization id is any ASCII without `=` and `,`, which are written as =3D and =2C.
    # Repetitions keep what they have matched (`++`), as in `scram_messages`.
    rf"n,(?:a=(?P<authzid>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++))?,{_END}"
    rf"(?P<pairs>(?:{_PAIR}{_END})*+){_END}"
)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_EXTENSION: Final = re.compile(_PAIR)


class BadMessage(ValueError):
    """A message breaks the rules; the text is part of a sentence, and holds no secret."""


class ClientFirst(NamedTuple):
    """The client's only message with content."""

    token: str
    authzid: str = ""
    """As it was sent: Kafka compares the user with it before `=2C` and `=3D` are replaced."""
    extensions: Mapping[str, str] = {}
    """For the server's own use; Kafka's servers have none for them."""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a message.  Raises: BadMessage."""
        found = _PAIRS.fullmatch(data.decode("latin-1"))
        if found is None:
            raise BadMessage("the first message is not one of OAUTHBEARER")
        pairs = dict(pair.split("=", 1) for pair in found["pairs"].split(_END) if pair)
        auth = _AUTH.fullmatch(pairs.pop("auth", ""))
        if auth is None or auth["scheme"].lower() != "bearer":
            raise BadMessage("the first message has no bearer token")
        return cls(auth["token"], found["authzid"] or "", pairs)

    def encode(self) -> bytes:
        """The bytes that a client sends."""
        pairs = {"auth": f"Bearer {self.token}", **self.extensions}
        text = "".join(f"{name}={value}{_END}" for name, value in pairs.items())
        authzid = f"a={self.authzid}" if self.authzid else ""
        return f"n,{authzid},{_END}{text}{_END}".encode()


def is_extension(name: str, value: str) -> bool:
    """Whether a client may send this extension."""
    return name != "auth" and _EXTENSION.fullmatch(f"{name}={value}") is not None


def error_text(scope: str | None) -> str:
    """The server's error, as Kafka writes it; `scope`: what the token lacks, if it is that."""
    if scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":{json.dumps(scope)}}}'
