"""A token in a file, which somebody else renews."""

from typing import Final

from odradek.storage.files import NotRegular, read_regular

from .token import InvalidToken, decode_part

SIZE_BYTES_MAX: Final = 1 << 16


class BadTokenFile(Exception):
    """The file has no token; the text is part of a sentence, and shows only the path."""


def read_token(path: str) -> str:
    """Read the token, which is small, and local.  Raises: BadTokenFile."""
    try:
        data = read_regular(path, SIZE_BYTES_MAX)
    except NotRegular:
        data = b""
    except OSError as error:
        raise BadTokenFile(f"the token in {path} cannot be read: {error.strerror}") from None
    text = data.decode("latin-1").strip()
    if len(data) > SIZE_BYTES_MAX or not text or not text.isascii() or not text.isprintable():
        raise BadTokenFile(f"{path} does not have a token")
    return text


def user_in(token: str, user_claim: str) -> str:
    """Who a token says its owner is, without a check: for messages.  Raises: BadTokenFile."""
    try:
        return str(decode_part(token.split(".")[1], "content")[user_claim])
    except (InvalidToken, IndexError, KeyError):
        raise BadTokenFile(f"the token does not name a user (claim {user_claim})") from None
