"""The few requests that the fixture needs, sent without any Kafka client installed."""

import socket
import struct
import time
from typing import Final, TypeVar

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.k20_delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.schema import Message

from .errors import BrokerFailed
from .ready import Address

# Versions with topic ids, so that a recreated topic counts as another one.
METADATA_VERSION: Final = 12
DELETE_TOPICS_VERSION: Final = 6
CLIENT_ID: Final = b"odradek.testing"
HEADER: Final = struct.Struct(">hhih")  # key, version, correlation id, size of the client id
NO_TAGGED_FIELDS: Final = b"\0"
ANSWER_HEADER_BYTES: Final = 5  # correlation id, and no tagged fields
FRAME_SIZE: Final = struct.Struct(">i")
POLL_S: Final = 0.005

Response = TypeVar("Response", bound=Message)


def delete_all_topics(address: Address, *, timeout_s: float) -> None:
    """Delete all topics, and return when the broker knows none; it must be the controller.

    Raises: BrokerFailed.
    """
    deadline_s = time.monotonic() + timeout_s
    try:
        with _connect(address, timeout_s) as connection:
            asked: set[bytes] = set()
            while topics := _topics(connection):
                # Each is deleted once, because a broker may answer before the topic is gone. One
                # that appears later was created meanwhile, by a client that a test left behind.
                if fresh := sorted(topics.keys() - asked):
                    _delete(connection, fresh, timeout_s)
                    asked.update(fresh)
                elif time.monotonic() > deadline_s:
                    names = ", ".join(sorted(topics.values()))
                    raise BrokerFailed(f"topics do not go away: {names}")
                else:
                    time.sleep(POLL_S)
    except OSError as error:
        raise BrokerFailed(f"the broker does not answer: {error}") from error


def read_metadata(address: Address, *, timeout_s: float) -> MetadataResponse:
    """A broker's metadata of the brokers and of all topics.  Raises: OSError."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    with _connect(address, timeout_s) as connection:
        return _ask(connection, request, METADATA_VERSION, MetadataResponse)


def _connect(address: Address, timeout_s: float) -> socket.socket:
    connection = socket.create_connection(address, timeout=timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _topics(connection: socket.socket) -> dict[bytes, str]:
    """Names by topic id."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = _ask(connection, request, METADATA_VERSION, MetadataResponse)
    return {topic.topic_id: topic.name or "" for topic in answer.topics}


def _delete(connection: socket.socket, topic_ids: list[bytes], timeout_s: float) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(topic_id=topic_id) for topic_id in topic_ids],
        timeout_ms=int(timeout_s * 1000),
    )
    answer = _ask(connection, request, DELETE_TOPICS_VERSION, DeleteTopicsResponse)
    for result in answer.responses:
        if result.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID):
            raise BrokerFailed(f"{result.name}: {ErrorCode(result.error_code).name}")


def _ask(
    connection: socket.socket, request: Message, version: int, response: type[Response]
) -> Response:
    header = HEADER.pack(request.API_KEY, version, 0, len(CLIENT_ID)) + CLIENT_ID + NO_TAGGED_FIELDS
    body = header + request.encode(version)
    connection.sendall(FRAME_SIZE.pack(len(body)) + body)
    (size_bytes,) = FRAME_SIZE.unpack(_receive(connection, FRAME_SIZE.size))
    answer, _ = response.decode(_receive(connection, size_bytes), version, ANSWER_HEADER_BYTES)
    return answer


def _receive(connection: socket.socket, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes:
        part = connection.recv(size_bytes - len(data))
        if not part:
            raise ConnectionError("the broker closed the connection")
        data += part
    return bytes(data)
