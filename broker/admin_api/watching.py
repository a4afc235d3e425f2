"""Waiting for something to become true: it is looked at again after each change of what it uses."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from odradek.protocol.errors import Refused

from ..core.waiters import Waiters
from .controls import Controls
from .problems import Problem

TIMEOUT_S_MAX: Final = 600
PASSING: Final = (404, 409)
"""The statuses of what may become possible."""
PAUSE_S: Final = 0.005
"""Between two looks, as a group of many members changes all the time."""

T = TypeVar("T")


class NotYet(Exception):
    """What a look has seen instead, as a text for people."""


class Watch:
    """Hears of the changes that matter to one look."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._heard: list[Waiters] = []

    def over(self, waiters: Waiters) -> None:
        """Hear of these changes, too."""
        waiters.add(self._changed.set)
        self._heard.append(waiters)

    async def changed(self) -> None:
        """Return once something has changed since the watch began."""
        await self._changed.wait()

    def close(self) -> None:
        """Hear of nothing more."""
        for waiters in self._heard:
            waiters.discard(self._changed.set)


def watch_metadata(watch: Watch, controls: Controls) -> None:
    """Hear of new topics, leaders and brokers."""
    for broker in controls.brokers.values():
        watch.over(broker.node.metadata.changes)


def watch_groups(watch: Watch, controls: Controls) -> None:
    """Hear of changes of groups and their offsets, and of their coordinators."""
    watch_metadata(watch, controls)
    for broker in controls.brokers.values():
        watch.over(broker.node.groups.changes)


async def wait_until(look: Callable[[Watch], Awaitable[T]], timeout_s: float) -> T:
    """What `look` returns once it raises no NotYet, and nothing else that may pass.

    Raises: Problem (504), with what the last look has seen.
    """
    if timeout_s > TIMEOUT_S_MAX:
        raise Problem(400, f"timeout must be at most {TIMEOUT_S_MAX} s")
    loop = asyncio.get_running_loop()
    end_s = loop.time() + timeout_s
    while True:
        is_last = loop.time() >= end_s
        with contextlib.closing(Watch()) as watch:
            try:
                return await look(watch)
            except (NotYet, Refused) as not_yet:
                seen = str(not_yet)
            except Problem as problem:
                if problem.status not in PASSING:
                    raise
                seen = problem.sentence
            if is_last:
                raise Problem(504, f"after {timeout_s:g} s {seen}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(end_s):
                    await watch.changed()
        await asyncio.sleep(PAUSE_S)
