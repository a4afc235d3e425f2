"""The texts of SCRAM (RFC 5802 section 7), as strictly as Kafka reads them, for both sides.

Kafka allows ASCII only. There is no channel binding, so a client's first message begins with `n`.
"""

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Final

# Kafka's grammar is that of RFC 5802, but without characters above ASCII.  Repetitions keep what
# they have matched (`++`): to be able to go back takes time and memory, and anybody may send half a
# megabyte.
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]++"
_SASLNAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]++"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*+(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_RESERVED: Final = rf"(?:m={_VALUE},)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]++={_VALUE})*"

_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,{_RESERVED}"
    rf"n=(?P<name>{_SASLNAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS})"
)
_SERVER_FIRST: Final = re.compile(
    rf"{_RESERVED}r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),"
    rf"i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),"
    rf"p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64}){_EXTENSIONS}")


class BadScram(Exception):
    """Bytes that are not the message of SCRAM that is due; the text contains none of them."""


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """Who wants to log in, and the client's half of the nonce."""

    name: str
    nonce: str
    authzid: str = ""
    extensions: str = ""  # with their leading comma
    header: str = "n,,"

    @property
    def bare(self) -> str:
        """The part that both sides sign."""
        return f"n={_quoted(self.name)},r={self.nonce}{self.extensions}"

    @property
    def token_authenticated(self) -> bool:
        """Whether the name is the id of a delegation token (KIP-48)."""
        pairs = (pair.partition("=") for pair in self.extensions[1:].split(","))
        return any(key == "tokenauth" and value.lower() == "true" for key, _, value in pairs)

    def encode(self) -> bytes:
        """Return the message of a client that asks to be nobody else."""
        return f"{self.header}{self.bare}".encode()

    @classmethod
    def parse(cls, data: bytes) -> "ClientFirst":
        """Read a message. Raises: BadScram."""
        found = _match(_CLIENT_FIRST, data, "client's first message")
        return cls(
            name=_unquoted(found["name"]),
            nonce=found["nonce"],
            authzid=_unquoted(found["authzid"] or ""),
            extensions=found["extensions"],
        )


@dataclass(frozen=True, slots=True)
class ServerFirst:
    """The whole nonce, and how to stretch the password."""

    nonce: str
    salt: bytes = field(repr=False)
    iterations: int
    received: str = field(default="", repr=False)

    @property
    def text(self) -> str:
        """What both sides sign: the message as it came, or as it is sent."""
        return self.received or f"r={self.nonce},s={_base64(self.salt)},i={self.iterations}"

    def encode(self) -> bytes:
        """Return the bytes of the message."""
        return self.text.encode()

    @classmethod
    def parse(cls, data: bytes) -> "ServerFirst":
        """Read a message. Raises: BadScram."""
        found = _match(_SERVER_FIRST, data, "server's first message")
        return cls(
            nonce=found["nonce"],
            salt=b64decode(found["salt"]),
            iterations=int(found["iterations"]),
            received=found[0],
        )


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """The client's proof; `bare` is the part before it, which both sides sign."""

    bare: str
    channel_binding: bytes
    nonce: str
    proof: bytes = field(repr=False)

    def encode(self) -> bytes:
        """Return the bytes of the message."""
        return f"{self.bare},p={_base64(self.proof)}".encode()

    @classmethod
    def parse(cls, data: bytes) -> "ClientFinal":
        """Read a message. Raises: BadScram."""
        found = _match(_CLIENT_FINAL, data, "client's final message")
        return cls(
            bare=found["bare"],
            channel_binding=b64decode(found["channel"]),
            nonce=found["nonce"],
            proof=b64decode(found["proof"]),
        )


def client_final_bare(nonce: str, header: str = "n,,") -> str:
    """Return a client's final message without its proof; `header` is that of its first message."""
    return f"c={_base64(header.encode())},r={nonce}"


@dataclass(frozen=True, slots=True)
class ServerFinal:
    """The server's signature, or why it refuses."""

    signature: bytes = field(default=b"", repr=False)
    error: str = ""

    def encode(self) -> bytes:
        """Return the bytes of the message."""
        text = f"e={self.error}" if self.error else f"v={_base64(self.signature)}"
        return text.encode()

    @classmethod
    def parse(cls, data: bytes) -> "ServerFinal":
        """Read a message. Raises: BadScram."""
        found = _match(_SERVER_FINAL, data, "server's final message")
        return cls(signature=b64decode(found["signature"] or ""), error=found["error"] or "")


def _match(pattern: re.Pattern[str], data: bytes, what: str) -> re.Match[str]:
    try:
        found = pattern.fullmatch(data.decode("ascii"))
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise BadScram(f"this is no {what} of SCRAM")
    return found


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _quoted(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unquoted(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
