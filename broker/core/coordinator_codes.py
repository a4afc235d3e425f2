"""Error codes for clients if a coordinator's records could not be appended."""

from typing import Final

from odradek.protocol.errors import ErrorCode

_UNAVAILABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_ELSEWHERE: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_TOO_LARGE: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_FETCH_SIZE,
    }
)


def coordinator_code_of(code: ErrorCode) -> ErrorCode:
    """The client's error code if the records were refused with `code`."""
    if code in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code in _ELSEWHERE:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR if code in _TOO_LARGE else code


def offset_code_of(code: ErrorCode) -> ErrorCode:
    """The client's error code if the records of its offsets were refused with `code`."""
    if code == ErrorCode.REQUEST_TIMED_OUT:
        return code
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code in _TOO_LARGE else coordinator_code_of(code)
