"""ZooKeeper's rules for paths and request sizes, checked before anything is sent."""

import re
from collections.abc import Sequence
from typing import Final

from .interface import REQUEST_SIZE_BYTES_MAX, BadArguments, Create, Op, RequestTooLarge, Set

# As in ZooKeeper's PathUtils: no control characters, no surrogates or private use, no specials.
# PathUtils checks UTF-16 units, so everything beyond the basic plane is refused as well.
FORBIDDEN: Final = "\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff"
VALID_PATH: Final = re.compile(f"(?:/(?!\\.{{1,2}}(?:/|\\Z))[^/{FORBIDDEN}]+)+|/")


def check_path(path: str, *, sequential: bool = False) -> None:
    """Check a path; that of a sequential node may end in a slash.  Raises: BadArguments."""
    if VALID_PATH.fullmatch(f"{path}0" if sequential else path) is None:
        raise BadArguments(f"invalid path {path[:200]!r}")


def check_size(ops: Sequence[Op]) -> None:
    """Check the size of one request.  Raises: RequestTooLarge."""
    size_bytes = 0
    for op in ops:
        size_bytes += len(op.path)
        if isinstance(op, Create | Set):
            size_bytes += len(op.data)
    if size_bytes > REQUEST_SIZE_BYTES_MAX:
        raise RequestTooLarge(
            f"{size_bytes} bytes for {ops[0].path[:200]}, at most {REQUEST_SIZE_BYTES_MAX}"
        )


def split_path(path: str) -> tuple[str, str]:
    """Parent and name of a valid path other than the root."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name
