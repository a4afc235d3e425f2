"""The few requests that the fixture needs, sent without any Kafka client installed."""

import time
from typing import Final

from odradek.client_configs import Access
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.k20_delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

from .connection import Connection
from .errors import BrokerFailed, hides
from .ready import Address

__tracebackhide__ = hides
# Versions with topic ids, so that a recreated topic counts as another one.
METADATA_VERSION: Final = 12
DELETE_TOPICS_VERSION: Final = 6
POLL_S: Final = 0.005


def delete_all_topics(address: Address, access: Access, *, timeout_s: float) -> None:
    """Delete all topics, and return when the broker knows none; it must be the controller.

    Raises: BrokerFailed.
    """
    deadline_s = time.monotonic() + timeout_s
    try:
        with Connection(address, access, timeout_s=timeout_s) as connection:
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


def read_metadata(address: Address, access: Access, *, timeout_s: float) -> MetadataResponse:
    """A broker's metadata of the brokers and of all topics.  Raises: OSError."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    with Connection(address, access, timeout_s=timeout_s) as connection:
        return connection.ask(request, METADATA_VERSION, MetadataResponse)


def _topics(connection: Connection) -> dict[bytes, str]:
    """Names by topic id."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = connection.ask(request, METADATA_VERSION, MetadataResponse)
    return {topic.topic_id: topic.name or "" for topic in answer.topics}


def _delete(connection: Connection, topic_ids: list[bytes], timeout_s: float) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(topic_id=topic_id) for topic_id in topic_ids],
        timeout_ms=int(timeout_s * 1000),
    )
    answer = connection.ask(request, DELETE_TOPICS_VERSION, DeleteTopicsResponse)
    for result in answer.responses:
        if result.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID):
            raise BrokerFailed(f"{result.name}: {ErrorCode(result.error_code).name}")
