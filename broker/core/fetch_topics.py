"""Parts of a Fetch and of its answer that concern one topic, by its name or by its id."""

from collections.abc import Callable
from typing import TypeVar

from odradek.protocol.messages.k01_fetch import FetchableTopicResponse, FetchTopic, ForgottenTopic

TopicT = TypeVar("TopicT", FetchTopic, ForgottenTopic, FetchableTopicResponse)


def part_of(
    topics: dict[str | bytes, TopicT], name: str | bytes, make: Callable[[], TopicT]
) -> TopicT:
    """The part that concerns a topic; created on first use."""
    topic = topics.get(name)
    if topic is None:
        topic = topics[name] = make()
        if isinstance(name, str):
            topic.topic = name
        else:
            topic.topic_id = name
    return topic
