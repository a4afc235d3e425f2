"""Notifications: sequential znodes by which brokers tell all others of a change.

They stay for a quarter of an hour, and each change has all their names read: as few as possible are
looked at.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

from .interface import NoNode, Session

AGE_MS_MAX: Final = 15 * 60_000
DIGITS: Final = 10


def newest(names: Iterable[str], prefix: str) -> int:
    """The greatest number of a notification; -1 if there is none."""
    return next((number for number, _ in _numbered(names, prefix, reverse=True)), -1)


def newer(names: Iterable[str], prefix: str, after: int) -> list[tuple[int, str]]:
    """Those with a number above `after`, with their numbers, in order; other names are ignored."""
    first = f"{prefix}{after + 1:0{DIGITS}}"
    return list(_numbered((name for name in names if name >= first), prefix))


def _numbered(
    names: Iterable[str], prefix: str, *, reverse: bool = False
) -> Iterator[tuple[int, str]]:
    # Numbers have equally many digits, so their order is that of the names.
    for name in sorted((name for name in names if name.startswith(prefix)), reverse=reverse):
        digits = name[len(prefix) :]
        if len(digits) == DIGITS and digits.isascii() and digits.isdecimal():
            yield int(digits), name


async def purge(
    session: Session, parent: str, names: Iterable[str], prefix: str, *, wall_ms: int
) -> None:
    """Delete those, from the oldest on, that are old enough for all brokers to have seen them.

    Every broker does this, as in Kafka (ZkNodeChangeNotificationListener).
    """
    for _, name in _numbered(names, prefix):
        path = f"{parent}/{name}"
        stat = await session.exists(path)
        if stat is None:
            continue
        if wall_ms - stat.ctime_ms <= AGE_MS_MAX:
            return  # the next ones are younger still
        with contextlib.suppress(NoNode):
            await session.delete(path)
