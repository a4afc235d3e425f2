"""Parts of a Fetch and of its answer that speak of one topic, by its name or by its id."""

from collections.abc import Callable
from typing import TypeVar

from odradek.protocol.messages.k01_fetch import FetchableTopicResponse, FetchTopic, ForgottenTopic

TopicT = TypeVar("TopicT", FetchTopic, ForgottenTopic, FetchableTopicResponse)


def part_of(
    topics: dict[str | bytes, TopicT], name: str | bytes, make: Callable[[], TopicT]
) -> TopicT:
    """The part that speaks of a topic; made when it is first asked for."""
    topic = topics.get(name)
    if topic is None:
        topic = topics[name] = make()
        if isinstance(name, str):
            topic.topic = name
        else:
            topic.topic_id = name
    return topic
