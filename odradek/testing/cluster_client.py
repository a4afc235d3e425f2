"""Requests to brokers that already run, which may be Apache Kafka's.

Each request opens a connection of its own: a test sends few of them, and a broker may be restarted
in between. Versions are chosen for each broker, so old and new ones do.
"""

import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, TypeVar

from odradek.host_port import parse_host_port
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from odradek.protocol.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.schema import Message

from .access import ClientAccess
from .connection import Connection
from .door import AdminError
from .errors import BrokerFailed, hides
from .ready import Address

__tracebackhide__ = hides
ASK_TIMEOUT_S: Final = 15.0
POLL_S: Final = 0.02
_PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # of a leader that has not heard of a new topic yet
    }
)
GROUP: Final = 0
TRANSACTION: Final = 1

T = TypeVar("T")
Response = TypeVar("Response", bound=Message)


class Passing(Exception):
    """What goes away soon: an error of an election, of a coordinator that is loading, or of a
    leader that has not heard of a new topic yet.
    """


class ClusterClient:
    """Asks the brokers that one or more addresses lead to."""

    def __init__(self, bootstrap: Sequence[Address], access: ClientAccess) -> None:
        self._bootstrap = bootstrap
        self._access = access
        self._versions: dict[Address, dict[int, int]] = {}
        """The highest version of each API, by broker."""

    def metadata(self, topics: Sequence[str] | None = None) -> MetadataResponse:
        """What any broker tells of these topics, or of all.  Raises: BrokerFailed."""
        named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
        failure: BrokerFailed | None = None
        for address in self._bootstrap:
            try:
                return self.ask(address, request, MetadataResponse, at_most=9)
            except BrokerFailed as error:
                failure = failure or error
        assert failure is not None
        raise failure

    def topic(self, name: str) -> MetadataResponseTopic | None:
        """What any broker tells of a topic; None if there is none.  Raises: BrokerFailed."""
        (told,) = self.metadata([name]).topics
        if told.error_code in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ):
            return None
        return told

    def addresses(self) -> dict[int, Address]:
        """All brokers.  Raises: BrokerFailed."""
        return {each.node_id: (each.host, each.port) for each in self.metadata().brokers}

    def leader(self, topic: str, partition: int) -> Address:
        """Where a partition is led.  Raises: Passing, BrokerFailed."""
        told = self.metadata([topic])
        addresses = {each.node_id: (each.host, each.port) for each in told.brokers}
        for found in told.topics[0].partitions:
            if found.partition_index == partition:
                if found.leader_id in addresses:
                    return addresses[found.leader_id]
                raise Passing(f"{topic}-{partition} has no leader")
        raise Passing(f"there is no partition {topic}-{partition}")

    def controller(self) -> Address:
        """The broker that makes and deletes topics.  Raises: Passing, BrokerFailed."""
        told = self.metadata([])
        for each in told.brokers:
            if each.node_id == told.controller_id:
                return each.host, each.port
        raise Passing("there is no controller")

    def coordinator(self, name: str, kind: int = GROUP) -> tuple[int, Address]:
        """The broker that coordinates a group, or a transactional id.

        Raises: Passing, BrokerFailed.
        """
        request = FindCoordinatorRequest(key=name, key_type=kind)
        told = self.ask(self._bootstrap[0], request, FindCoordinatorResponse, at_most=3)
        check(told.error_code, told.error_message, name)
        return told.node_id, (told.host, told.port)

    def ask(
        self, address: Address, request: Message, response: type[Response], *, at_most: int
    ) -> Response:
        """One broker's answer, in the highest version that it has, up to one.

        Raises: BrokerFailed.
        """
        try:
            with Connection(address, self._access, timeout_s=ASK_TIMEOUT_S) as connection:
                if address not in self._versions:
                    self._versions[address] = _versions(connection)
                version = min(at_most, self._versions[address].get(request.API_KEY, 0))
                return connection.ask(request, version, response)
        except (OSError, MalformedMessage) as error:
            reason = str(error)
            if isinstance(error, ConnectionAbortedError) and self._access.mechanism is None:
                reason += ": perhaps it wants TLS or a login, which odradek_external_config tells"
        host, port = address
        raise BrokerFailed(f"the broker at {host}:{port} does not answer: {reason}")


def _versions(connection: Connection) -> dict[int, int]:
    told = connection.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return {each.api_key: each.max_version for each in told.api_keys}


def check(code: int, message: str | None, about: str) -> None:
    """Check that there is no error.  Raises: Passing, AdminError."""
    if code == ErrorCode.NONE:
        return
    name = ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
    sentence = f"{about}: {name}" + (f": {message}" if message else "")
    if code in _PASSING:
        raise Passing(sentence)
    raise AdminError(HTTPStatus.CONFLICT, sentence)


def until(look: Callable[[], T], timeout_s: float) -> T:
    """What `look` returns once it raises Passing no more.  Raises: Passing."""
    end_s = time.monotonic() + timeout_s
    while True:
        is_last = time.monotonic() >= end_s
        try:
            return look()
        except Passing:
            if is_last:
                raise
        time.sleep(POLL_S)


def until_it_passes(ask: Callable[[], T]) -> T:
    """The answer once errors that pass are over.  Raises: BrokerFailed."""
    try:
        return until(ask, ASK_TIMEOUT_S)
    except Passing as error:
        raise BrokerFailed(str(error)) from None


def addresses_of(servers: str) -> list[Address]:
    """The addresses in `HOST:PORT,…`.  Raises: ValueError."""
    return [parse_host_port(each.strip()) for each in servers.split(",")]
