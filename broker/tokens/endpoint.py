"""Asks a token endpoint once, over a connection of its own.  Blocks: for threads.

No redirect is followed, and no proxy of the environment is used.
"""

import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final
from urllib.parse import SplitResult

from .client_credentials import ClientCredentials, OwnToken
from .fetch import READ_BYTES, port_of
from .http_exchange import Answer, FetchFailed, HttpExchange, reaching

SIZE_BYTES_MAX: Final = 1 << 17
_LOOK_UP_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """A token endpoint, and who asks it."""

    url: SplitResult
    credentials: ClientCredentials
    context: SSLContext | None
    """For https."""
    user_claim: str
    connect_timeout_s: float
    answer_timeout_s: float
    now_s: Callable[[], float]
    """The monotonic clock."""

    @property
    def timeout_s(self) -> float:
        """When nothing more can come; it only passes if the host's name is not found."""
        return self.connect_timeout_s + self.answer_timeout_s + _LOOK_UP_S

    def fetch(self) -> OwnToken:
        """Get a token.  Raises: FetchFailed, TokenRefused."""
        try:
            with reaching():
                answer = self._ask()
        except TimeoutError:
            waited = f"{self.connect_timeout_s:g} and {self.answer_timeout_s:g} s"
            raise FetchFailed(f"does not connect and answer within {waited}") from None
        token = self.credentials.token_in(answer)
        return OwnToken.parse(token, self.user_claim)

    def _ask(self) -> Answer:
        host = self.url.hostname
        assert host is not None
        exchange = HttpExchange(
            self.url,
            method="POST",
            headers=self.credentials.headers,
            body=self.credentials.body,
            size_bytes_max=SIZE_BYTES_MAX,
        )
        connection = socket.create_connection((host, port_of(self.url)), self.connect_timeout_s)
        deadline_s = self.now_s() + self.answer_timeout_s
        with closing(connection):
            if self.context is None:
                return self._exchange(connection, exchange, deadline_s)
            connection.settimeout(self.answer_timeout_s)
            with self.context.wrap_socket(connection, server_hostname=host) as secured:
                return self._exchange(secured, exchange, deadline_s)

    def _exchange(
        self, connection: socket.socket, exchange: HttpExchange, deadline_s: float
    ) -> Answer:
        self._limit(connection, deadline_s)
        connection.sendall(exchange.request)
        answer = None
        while answer is None:
            self._limit(connection, deadline_s)
            answer = exchange.receive(connection.recv(READ_BYTES))
        return answer

    def _limit(self, connection: socket.socket, deadline_s: float) -> None:
        """Let the next call wait until the deadline."""
        left_s = deadline_s - self.now_s()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
