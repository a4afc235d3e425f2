"""The client of the admin API: HTTP and JSON, blocking, without dependencies.

The typed objects that `Broker` offers (`topics`, `groups`, ...) are built on it.
"""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from .errors import BrokerFailed
from .texts import text_of

PREFIX: Final = "/admin/v1"
TIMEOUT_S: Final = 60.0
HEARING_S: Final = 10.0
CONNECTIONS_MAX: Final = 4
"""Of one client: the admin API takes 32, of all processes that use it."""
POLL_S: Final = 0.02


class AdminError(BrokerFailed):
    """The admin API refuses a request, or fails."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        """Of HTTP."""


class InvalidField(AdminError, ValueError):
    """A request has a field that is unknown or has a wrong value."""


class NotFound(AdminError):
    """What the path of a request names does not exist."""


class Misdirected(AdminError):
    """The broker that a request is about is in another process."""


_ERRORS: Final[dict[int, type[AdminError]]] = {400: InvalidField, 404: NotFound, 421: Misdirected}


class AdminClient:
    """A client; threads may share it. At most four requests run at once; others wait."""

    def __init__(self, url: str, *, token: str = "", timeout_s: float = TIMEOUT_S) -> None:
        """`url` is `http://HOST:PORT`."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"{url!r} is not http://HOST:PORT")
        self._connect = partial(
            http.client.HTTPConnection, parts.hostname, parts.port, timeout=timeout_s
        )
        self._free = threading.Semaphore(CONNECTIONS_MAX)
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._closings = 0
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def get(self, *segments: object, **query: object) -> Any:
        """GET the path of these segments, with a query.  Raises: AdminError, BrokerFailed."""
        return self._ask("GET", segments, query, None)

    def post(self, *segments: object, **fields: object) -> Any:
        """POST these fields.  Raises: AdminError, BrokerFailed."""
        return self._ask("POST", segments, {}, json.dumps(fields).encode())

    def delete(self, *segments: object, **query: object) -> Any:
        """DELETE what the path names.  Raises: AdminError, BrokerFailed."""
        return self._ask("DELETE", segments, query, None)

    def close(self) -> None:
        """Close the connections; a later request opens another one."""
        with self._lock:
            self._closings += 1
            while self._idle:
                self._idle.pop().close()

    def _ask(
        self, method: str, segments: tuple[object, ...], query: Mapping[str, object], body: Any
    ) -> Any:
        path = "/".join([PREFIX, *(quote(str(segment), safe="") for segment in segments)])
        given = {name: text_of(value) for name, value in query.items() if value is not None}
        target = f"{path}?{urlencode(given)}" if given else path
        try:
            with self._free, self._connection() as connection:
                status, text = _exchange(connection, method, target, body, self._headers)
                answer = json.loads(text)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise BrokerFailed(f"the admin API does not answer: {error!r}") from error
        if status < http.client.BAD_REQUEST:
            return answer
        sentence = answer.get("error") if isinstance(answer, dict) else None
        if not isinstance(sentence, str):
            raise BrokerFailed(f"what answers {method} {path} is no admin API: it says {status}")
        raise _ERRORS.get(status, AdminError)(status, sentence)

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        """A connection that nobody else uses; after an error it is closed."""
        with self._lock:
            connection = self._idle.pop() if self._idle else self._connect()
            closings = self._closings
        is_good = False
        try:
            yield connection
            is_good = True
        finally:
            with self._lock:
                if is_good and closings == self._closings:
                    self._idle.append(connection)
                else:
                    connection.close()


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    body: Any,
    headers: Mapping[str, str],
) -> tuple[int, bytes]:
    """The status and the body of the answer.  Raises: OSError, HTTPException."""
    is_reused = connection.sock is not None
    try:
        connection.request(method, target, body, headers)
        response = connection.getresponse()
    except ConnectionError:  # an idle connection that the server has closed meanwhile
        if not is_reused:
            raise
        connection.close()
        connection.request(method, target, body, headers)
        response = connection.getresponse()
    return response.status, response.read()


def running(clients: Iterable[AdminClient]) -> list[AdminClient]:
    """The clients, if there is one: what nobody is told has no effect.  Raises: BrokerFailed."""
    found = list(clients)
    if not found:
        raise BrokerFailed("no broker runs")
    return found


class AdminClients:
    """The clients of the admin APIs of all processes of a fixture; usually there is only one."""

    def __init__(
        self, urls: Callable[[], list[str]], token: str, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """`urls`: of the processes that run now."""
        self._urls = urls
        self._token = token
        self._timeout_s = timeout_s
        self._clients: dict[str, AdminClient] = {}

    def __iter__(self) -> Iterator[AdminClient]:
        for url in self._urls():
            # Of two threads that come first, one would drop the client that the other connects.
            yield self._clients.get(url) or self._clients.setdefault(url, self.client_of(url))

    def client_of(self, url: str) -> AdminClient:
        """A client of the API there."""
        return AdminClient(url, token=self._token, timeout_s=self._timeout_s)

    def patient(self, timeout_s: float) -> "AdminClients":
        """Others that wait for so long, on connections of their own; the caller closes them."""
        return AdminClients(self._urls, self._token, timeout_s=timeout_s)

    @property
    def first(self) -> AdminClient:
        """One for what any process can do.  Raises: BrokerFailed."""
        return running(self)[0]

    def post_to_broker(self, broker_id: int, verb: str, **fields: object) -> Any:
        """Have the process of a broker do something to it.  Raises: AdminError, BrokerFailed."""
        for client in self:
            with suppress(NotFound):  # it is in another process
                return client.post("brokers", broker_id, verb, **fields)
        raise BrokerFailed(f"there is no broker {broker_id} that runs")

    def ask_where_it_is(self, ask: Callable[[AdminClient], Any]) -> Any:
        """Ask the process that has the broker which a request is about.

        Another process may not have heard yet of what the first one knows.  Raises: AdminError.
        """
        deadline_s = time.monotonic() + HEARING_S
        while True:
            misdirected: AdminError | None = None
            for client in self:
                try:
                    return ask(client)
                except Misdirected as error:
                    misdirected = error
                except NotFound:
                    if misdirected is None:
                        raise
            if misdirected is None:
                raise BrokerFailed("no broker runs")
            if time.monotonic() > deadline_s:
                raise misdirected
            time.sleep(POLL_S)

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
