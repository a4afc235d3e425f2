"""Reads a small document from a URL with https, http or file, in bounded time and memory.

No redirect is followed, and no proxy of the environment is used: only what the settings allow is
asked.
"""

import asyncio
from ssl import SSLContext
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from odradek.storage.files import NotRegular, read_regular

from ..slow_reads import SlowReads
from .http_exchange import SIZE_BYTES_MAX, FetchFailed, HttpExchange, reaching

TIMEOUT_S: Final = 10.0
READ_BYTES: Final = 1 << 16
_PORTS: Final = {"https": 443, "http": 80}


def parse_url(text: str) -> SplitResult:
    """Split a URL.  Raises: ValueError if it can't be fetched."""
    url = urlsplit(text)
    is_remote = url.scheme in _PORTS and bool(url.hostname) and url.username is None
    is_file = url.scheme == "file" and url.netloc in ("", "localhost") and url.path.startswith("/")
    if not (is_remote or is_file) or url.port == 0:
        raise ValueError
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError  # it would break the request's line
    if "\0" in unquote(url.path):
        raise ValueError  # no file has such a name
    (url.hostname or "").encode("idna")  # as when it is looked up; UnicodeError is a ValueError
    return url


def port_of(url: SplitResult) -> int:
    """The port of a URL with https or http."""
    return url.port or _PORTS[url.scheme]


def file_in(text: str) -> str | None:
    """The path in the URL of a file; None: it is not one."""
    try:
        url = parse_url(text)
    except ValueError:
        return None
    return unquote(url.path) if url.scheme == "file" else None


def read_file(path: str) -> bytes:
    """Read a regular file.  Blocks.  Raises: FetchFailed."""
    try:
        data = read_regular(path, SIZE_BYTES_MAX)
    except NotRegular:
        raise FetchFailed("is not a file") from None
    except OSError as error:
        raise FetchFailed(f"cannot be read: {error.strerror}") from None
    if len(data) > SIZE_BYTES_MAX:
        raise FetchFailed(f"is larger than {SIZE_BYTES_MAX} bytes")
    return data


async def fetch(
    url: SplitResult,
    context: SSLContext | None,
    reads: SlowReads,
) -> bytes:
    """Read a document.  `context` is for https, `reads` for files.

    Raises: FetchFailed.
    """
    try:
        with reaching():
            if url.scheme == "file":
                return await reads(read_file, unquote(url.path))
            async with asyncio.timeout(TIMEOUT_S):
                return await _get(url, context)
    except TimeoutError:
        raise FetchFailed(f"does not answer within {TIMEOUT_S:g} s") from None


async def _get(url: SplitResult, context: SSLContext | None) -> bytes:
    tls = context if url.scheme == "https" else None
    reader, writer = await asyncio.open_connection(url.hostname, port_of(url), ssl=tls)
    try:
        exchange = HttpExchange(url)
        writer.write(exchange.request)
        answer = None
        while answer is None:
            answer = exchange.receive(await reader.read(READ_BYTES))
    finally:
        writer.transport.abort()
    if answer.status != 200:
        raise FetchFailed(f"answers with status {answer.status}")
    return answer.body
