"""Notifications: sequential znodes by which brokers tell all others of a change."""

import contextlib
from collections.abc import Iterable
from typing import Final

from .interface import NoNode, Session

AGE_MS_MAX: Final = 15 * 60_000


async def purge(session: Session, paths: Iterable[str], *, wall_ms: int) -> None:
    """Delete those, from the oldest on, that are old enough for all brokers to have seen them.

    Every broker does this, as in Kafka (ZkNodeChangeNotificationListener).
    """
    for path in paths:
        stat = await session.exists(path)
        if stat is None:
            continue
        if wall_ms - stat.ctime_ms <= AGE_MS_MAX:
            return  # the next ones are younger still
        with contextlib.suppress(NoNode):
            await session.delete(path)
