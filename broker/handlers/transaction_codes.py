"""Error codes of the transaction coordinator, as older clients know them."""

from odradek.protocol.errors import ErrorCode


def fencing_code(code: ErrorCode, version: int, version_first: int) -> ErrorCode:
    """PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before `version_first`."""
    if code is ErrorCode.PRODUCER_FENCED and version < version_first:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
