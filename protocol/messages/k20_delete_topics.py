"""DeleteTopics (API key 20): delete topics, by name or id.

Source: DeleteTopicsRequest.json, DeleteTopicsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int16, int32, string, uuid


class DeleteTopicState(Struct):
    """A topic by name or by id."""

    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


class DeleteTopicsRequest(Message, api_key=20, versions="0-6", flexible="4+"):
    """Names up to v5, names or ids from v6."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array("string", "0-5")
    timeout_ms: int = int32("0+")


class DeletableTopicResult(Struct):
    """The result for one topic."""

    name: str | None = string("0+", nullable="6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16("0+")
    error_message: str | None = string("5+", nullable="5+", default=None)


class DeleteTopicsResponse(Message, api_key=20, versions="0-6", flexible="4+"):
    """One result per topic."""

    throttle_time_ms: int = int32("1+")
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")
