"""Sends our own messages to brokers, over kafka-python's connections.

kafka-python's admin client lacks what the commands need: ConsumerGroupDescribe, the error of each
config resource, the configs of all brokers together.  So its connections (bootstrap, TLS, SASL,
choice of version) carry messages of `odradek.protocol` here.  This is the only module that uses
kafka-python's private parts, which is why pyproject.toml accepts the tested versions only.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.framing import FRAME_SIZE, RequestHeader, ResponseHeader
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.schema import Message

from .clients import Client, Cluster, error_name, sentence
from .errors import CommandError

Response = TypeVar("Response", bound=Message)
Answer = TypeVar("Answer")
NODE_ANY: Final = None
READS: Final = frozenset({3, 10, 60})
"""Metadata, FindCoordinator, DescribeCluster: any broker can answer, and they can be repeated."""
TRIES_MAX: Final = 4
GROUP: Final = 0
TRANSACTION: Final = 1
KEY_TYPES_FIRST: Final = 1  # before, every key is a group id
API_VERSIONS_KEY: Final = 18
NO_TOPICS_METADATA_FIRST: Final = 1  # before, an empty list means all topics
COORDINATOR_TIMEOUT_S: Final = 20.0
RETRY_S: Final = 0.1
PASSING: Final = frozenset(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""Errors of a coordinator while it starts, loads or moves."""


class BrokerLacks(CommandError):
    """The broker does not serve this API, or not in a version that can carry the request."""


class BrokerHungUp(CommandError):
    """The broker closed the connection instead of answering, or cannot be connected to."""


class BrokerNode(NamedTuple):
    """A broker and the address that it listens on."""

    node_id: int
    host: str
    port: int


class Brokers:
    """The brokers of the cluster that an admin client is connected to."""

    def __init__(self, admin: Client) -> None:
        self._manager = admin._manager

    def ask(
        self,
        request: Message,
        response_type: type[Response],
        *,
        node_id: int | None = NODE_ANY,
        first: int | None = None,
        advertised: bool = True,
    ) -> Response:
        """Send a request to one broker, in the newest common version, and wait for the response.

        `first` is the oldest version that can carry the request; an API that is not `advertised`
        is sent in our newest version.  Raises: BrokerLacks, BrokerHungUp, CommandError.
        """
        tries = TRIES_MAX if node_id is NODE_ANY and request.API_KEY in READS else 1
        while True:
            tries -= 1
            carried = _Carried(request, response_type, first)
            if not advertised:
                carried.API_VERSION = carried.max_version
            try:
                answer = self._send(carried, node_id)
            except BrokerHungUp:  # it may be going down: the next try may reach another one
                if not tries:
                    raise
            else:
                assert isinstance(answer, response_type)
                return answer

    def _send(self, carried: "_Carried", node_id: int | None) -> Any:
        """Raises: BrokerLacks, BrokerHungUp, CommandError."""
        from kafka import errors

        async def send() -> Any:
            return await self._manager.send(carried, node_id=node_id)

        try:
            return self._manager.run(send)
        except errors.IncompatibleBrokerVersion as error:
            raise BrokerLacks(
                f"the broker does not serve {carried.name} as it is needed here"
            ) from error
        except errors.UnknownBrokerIdError as error:
            raise CommandError(f"there is no broker {node_id}") from error
        except (errors.KafkaConnectionError, errors.Cancelled) as error:
            raise BrokerHungUp(f"the broker closed the connection at {carried.name}") from error
        except errors.NodeNotReadyError as error:  # it pauses after a connection that failed
            who = "no broker can" if node_id is NODE_ANY else f"broker {node_id} cannot"
            raise BrokerHungUp(f"{carried.name}: {who} be reached now") from error
        except errors.KafkaError as error:
            raise CommandError(f"{carried.name}: {sentence(error)}") from error

    def nodes(self) -> list[BrokerNode]:
        """All live brokers, by id.  Raises: CommandError."""
        answer = self.ask(
            MetadataRequest(topics=[]), MetadataResponse, first=NO_TOPICS_METADATA_FIRST
        )
        return sorted(BrokerNode(b.node_id, b.host, b.port) for b in answer.brokers)

    def coordinator(self, key: str, key_type: int = GROUP) -> BrokerNode:
        """The coordinator of a group, or of a transactional id.  Raises: CommandError."""
        code, message, node = until_settled(
            lambda: self._find_coordinator(key, key_type), lambda found: found[0]
        )
        if code != ErrorCode.NONE:
            raise refusal(key, code, message)
        return node

    def ask_coordinator(
        self,
        key: str,
        request: Message,
        response_type: type[Response],
        code_of: Callable[[Response], int],
        *,
        key_type: int = GROUP,
        first: int | None = None,
        advertised: bool = True,
    ) -> Response:
        """Ask a coordinator, and retry while it loads or moves.  Raises: as `ask`.

        The response may still have an error code, which `code_of` reads from it.
        """

        def ask() -> Response:
            node_id = self.coordinator(key, key_type).node_id
            return self.ask(
                request, response_type, node_id=node_id, first=first, advertised=advertised
            )

        return until_settled(ask, code_of)

    def _find_coordinator(self, key: str, key_type: int) -> tuple[int, str | None, BrokerNode]:
        # Names the key in both ways: the negotiated version carries one of them.
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        first = None if key_type == GROUP else KEY_TYPES_FIRST
        answer = self.ask(request, FindCoordinatorResponse, first=first)
        found = answer.coordinators[0] if answer.coordinators else answer
        node = BrokerNode(found.node_id, found.host, found.port)
        return found.error_code, found.error_message, node


def until_settled(ask: Callable[[], Answer], code_of: Callable[[Answer], int]) -> Answer:
    """Ask again while the answer has an error of a coordinator that starts, loads or moves."""
    deadline = time.monotonic() + COORDINATOR_TIMEOUT_S
    while True:
        answer = ask()
        if code_of(answer) not in PASSING or time.monotonic() > deadline:
            return answer
        time.sleep(RETRY_S)


@contextmanager
def brokers_of(cluster: Cluster) -> Iterator[Brokers]:
    """Connect to the brokers of a cluster.  Raises: CommandError."""
    with cluster.admin() as admin:
        yield Brokers(admin)


def refusal(what: str, code: int, message: str | None = None) -> CommandError:
    """The error to raise for a response with an error code."""
    return CommandError(f"{what}: {message or 'refused'} ({error_name(code)})")


class _Carried:
    """One of our messages with the interface that kafka-python's connections expect of a request.

    It is request, request header and response class in one: it has all that they use of these.
    """

    def __init__(
        self, request: Message, response_type: type[Message], first: int | None = None
    ) -> None:
        self._request = request
        self._response_type = response_type
        self.name = type(request).__name__.removesuffix("Request")
        self.API_KEY = request.API_KEY
        self.API_VERSION: int | None = None
        self.min_version = self._min_version = request.VERSIONS.first if first is None else first
        self.max_version = self._max_version = request.VERSIONS.last
        self.correlation_id = 0
        self._client_id = ""

    @property
    def api_key(self) -> int:
        return self.API_KEY

    @property
    def api_version(self) -> int | None:
        return self.API_VERSION

    @property
    def header(self) -> "_Carried":
        return self

    def expect_response(self) -> bool:
        return True

    def get_response_class(self) -> "_Carried":
        return self

    def with_header(self, correlation_id: int, client_id: str) -> None:
        self.correlation_id = correlation_id
        self._client_id = client_id

    def encode(self, *, framed: bool, header: bool) -> bytes:
        """The whole frame."""
        assert framed and header and self.API_VERSION is not None
        start = RequestHeader(
            request_api_key=self.API_KEY,
            request_api_version=self.API_VERSION,
            correlation_id=self.correlation_id,
            client_id=self._client_id,
        )
        # Header version 2 keeps the two-byte length of the client id: it is version 1 plus tags.
        out = start.encode(1)
        if self._flexible:
            out.append(0)
        body = bytes(self._request.encode(self.API_VERSION, out))
        return FRAME_SIZE.pack(len(body)) + body

    def parse_header(self, buffer: Any) -> ResponseHeader:
        """Read the response header from a file-like buffer."""
        start, _ = ResponseHeader.decode(buffer.read(4), 0)
        if self._flexible and self.API_KEY != API_VERSIONS_KEY:  # its header stays version 0
            buffer.read(1)  # no tag is defined
        return start

    def decode(self, buffer: Any) -> Message:
        """Read the response body, the rest of a file-like buffer."""
        assert self.API_VERSION is not None
        try:
            return self._response_type.decode(buffer.read(), self.API_VERSION)[0]
        except MalformedMessage as error:
            raise ValueError(str(error)) from error

    @property
    def _flexible(self) -> bool:
        return self.API_VERSION in self._request.FLEXIBLE
