"""Kafka's rules for topic names, and the internal topics.

Kafka names metrics after topics and turns every '.' into '_' there. Two topics that differ only in
these would share a metric, so the creation of the second one is refused.
"""

import re
from collections.abc import Iterable
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused

TOPIC_NAME_LENGTH_MAX: Final = 249  # "-", a partition number and a suffix must also fit into 255

GROUP_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Check that a topic name is legal.

    Raises: Refused with INVALID_TOPIC_EXCEPTION.
    """
    fault = _fault(name)
    if fault is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name {fault}")


def is_topic_name(name: str) -> bool:
    """Whether `check_topic_name` accepts it."""
    return _fault(name) is None


def _fault(name: str) -> str | None:
    if not name:
        return "is empty"
    if name in (".", ".."):
        return f"{name!r} would be a directory of the file system"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"has {len(name)} characters, at most {TOPIC_NAME_LENGTH_MAX} are allowed"
    if not _LEGAL.fullmatch(name):
        return f"{name!r} may hold only ASCII letters, digits, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """The key that no two topics may share: the name with each '.' replaced by '_'."""
    return name.replace(".", "_")


def may_collide(name: str) -> bool:
    """Whether another name could have the same collision key."""
    return "." in name or "_" in name


def check_collision(name: str, topics: Iterable[str]) -> None:
    """Check that a new topic shares its collision key with none of `topics`.

    A topic with the same name does not count: that is TOPIC_ALREADY_EXISTS, which the caller
    handles.

    Raises: Refused with INVALID_TOPIC_EXCEPTION.
    """
    if not may_collide(name):
        return
    key = collision_key(name)
    for topic in topics:
        if len(topic) == len(key) and topic != name and collision_key(topic) == key:
            raise Refused(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic {name!r} collides with {topic!r}: they differ only in '.' and '_'",
            )


def is_internal(topic: str) -> bool:
    """Whether the broker keeps its own state in this topic."""
    return topic in INTERNAL_TOPICS
