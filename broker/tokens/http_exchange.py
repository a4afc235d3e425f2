"""One HTTP/1.1 exchange without its connection: bytes to send, and the answer in those received.

No redirect is followed: only what the settings allow is asked.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ssl import SSLCertVerificationError
from typing import Final, NamedTuple
from urllib.parse import SplitResult

import h11

SIZE_BYTES_MAX: Final = 1 << 20


class FetchFailed(Exception):
    """Nothing could be fetched; the text is part of a sentence whose subject is the URL."""


@contextmanager
def reaching() -> Iterator[None]:
    """Say why what is asked inside cannot be reached.  Raises: FetchFailed, TimeoutError."""
    try:
        yield
    except TimeoutError:
        raise  # the caller knows how long it has waited
    except SSLCertVerificationError as error:
        raise FetchFailed(f"has a certificate that is refused: {error.verify_message}") from None
    except OSError as error:  # also of TLS
        raise FetchFailed(f"cannot be reached: {error.strerror or error}") from None


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes


class HttpExchange:
    """One request, after which the connection is closed, and its answer."""

    def __init__(
        self,
        url: SplitResult,
        *,
        method: str = "GET",
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        size_bytes_max: int = SIZE_BYTES_MAX,
    ) -> None:
        """`size_bytes_max` is that of the answer's body."""
        self._connection = h11.Connection(h11.CLIENT)
        self._size_bytes_max = size_bytes_max
        self._status = 0
        self._body = bytearray()
        common = [("Host", url.netloc), ("Accept", "application/json"), ("Connection", "close")]
        if body:
            common.append(("Content-Length", str(len(body))))
        target = f"{url.path or '/'}{f'?{url.query}' if url.query else ''}"
        request = h11.Request(method=method, target=target, headers=[*common, *headers])
        events = (request, h11.Data(body), h11.EndOfMessage())
        self.request: Final = b"".join(self._connection.send(event) or b"" for event in events)

    def receive(self, data: bytes) -> Answer | None:
        """Take what was received, or b"" at its end; the answer once it is whole.

        Raises: FetchFailed.
        """
        try:
            self._connection.receive_data(data)
            return self._answer()
        except h11.RemoteProtocolError as error:
            if not data:
                raise FetchFailed("hangs up before it has answered") from None
            reason = str(error).partition(":")[0]  # then may follow what the other side has sent
            raise FetchFailed(f"does not speak HTTP: {reason}") from None

    def _answer(self) -> Answer | None:
        while (event := self._connection.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Response):
                self._status = event.status_code
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > self._size_bytes_max:
                    raise FetchFailed(f"is larger than {self._size_bytes_max} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return Answer(self._status, bytes(self._body))
        return None
