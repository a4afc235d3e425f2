"""Where an API's response has the error that a rule names: as a whole, or at one of its lists.

What a rule names decides: the error of a rule with a topic is at the topic or its partitions. If it
names nothing of that kind, the error is where Kafka would put it. A response with an error code of
its own has it there, unless the error is one of topics and partitions. A response without one has
the error at each of its topics, partitions or groups.
"""

from enum import Enum, auto
from typing import Final

from odradek.protocol.errors import ErrorCode as E
from odradek.protocol.schema import Struct

from ..handlers import Api
from .rule import Rule
from .seen import FETCH_KEY
from .targets import Kind, path_of

OF_FETCH_SESSIONS: Final = frozenset(
    {
        E.FETCH_SESSION_ID_NOT_FOUND,
        E.INVALID_FETCH_SESSION_EPOCH,
        E.FETCH_SESSION_TOPIC_ID_ERROR,
        E.INCONSISTENT_CLUSTER_ID,
    }
)
"""The errors that a consumer's Fetch has as a whole."""
OF_PARTITIONS: Final = frozenset(
    {
        E.CORRUPT_MESSAGE,
        E.ELECTION_NOT_NEEDED,
        E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        E.FENCED_LEADER_EPOCH,
        E.GROUP_SUBSCRIBED_TO_TOPIC,
        E.INCONSISTENT_TOPIC_ID,
        E.INVALID_REPLICA_ASSIGNMENT,
        E.INVALID_TOPIC_EXCEPTION,
        E.KAFKA_STORAGE_ERROR,
        E.LEADER_NOT_AVAILABLE,
        E.NOT_LEADER_OR_FOLLOWER,
        E.NO_REASSIGNMENT_IN_PROGRESS,
        E.OFFSET_METADATA_TOO_LARGE,
        E.OFFSET_NOT_AVAILABLE,
        E.OFFSET_OUT_OF_RANGE,
        E.PREFERRED_LEADER_NOT_AVAILABLE,
        E.REPLICA_NOT_AVAILABLE,
        E.TOPIC_AUTHORIZATION_FAILED,
        E.UNKNOWN_LEADER_EPOCH,
        E.UNKNOWN_TOPIC_ID,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNSTABLE_OFFSET_COMMIT,
    }
)
"""The errors of topics and partitions, in responses that could also fail as a whole."""
_OF_TOPICS: Final = (Kind.TOPIC, Kind.PARTITION)


class Whole(Enum):
    """An error of the whole response."""

    WHOLE = auto()


WHOLE: Final = Whole.WHOLE
Place = int | Whole
"""The index of a list on the response's path, or the whole response."""


def place_of(api: Api, version: int, rule: Rule, error: E) -> Place:
    """Where to put the error of a rule."""
    response: type[Struct] = api.response  # type: ignore[assignment]
    path = path_of(response, version)
    with_code = [index for index, level in enumerate(path) if level.code]

    def first(*kinds: Kind) -> int | None:
        return next((index for index in with_code if path[index].kind in kinds), None)

    if rule.partition is not None:
        found = first(Kind.PARTITION)
    elif rule.topic is not None:
        found = first(*_OF_TOPICS)
    elif rule.group is not None:
        found = first(Kind.GROUP, Kind.KEY)
    elif rule.transactional_id is not None:
        found = first(Kind.TRANSACTIONAL_ID, Kind.KEY)
    else:
        found = None
    if found is not None:
        return found
    if _has_own_code(response, version) and not _is_of_partitions(api, error):
        return WHOLE
    if _is_of_partitions(api, error):
        found = first(*_OF_TOPICS)
    if found is None and with_code:
        found = with_code[0]
    return WHOLE if found is None else found


def _has_own_code(response: type[Struct], version: int) -> bool:
    return any(
        field.name == "error_code" and version in field.versions for field in response.FIELDS
    )


def _is_of_partitions(api: Api, error: E) -> bool:
    if api.key == FETCH_KEY:
        return error not in OF_FETCH_SESSIONS
    return error in OF_PARTITIONS
