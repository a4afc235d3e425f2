"""Group commit, and the order in which callers and watches are notified.

Callers and news (watch calls) wait for a commit in a *group*.  One group at a time is committed;
later arrivals gather in the next one, so that a thousand small operations cost a few commits.  A
caller that changed nothing waits in the last group with earlier changes, so that it never returns
state that is not durable; if no commit is pending, it continues at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

News = Callable[[], None]
Group = list[News | asyncio.Future[None]]


class CommitFailed(Exception):
    """The caller's changes will never be known to be durable."""


class CommitQueue:
    """Runs `commit` for one group after the other.

    The first `commit` that raises is the last: `on_failure(error)` is called, then every waiting
    and every later caller gets CommitFailed.
    """

    def __init__(
        self, commit: Callable[[], Awaitable[None]], *, on_failure: Callable[[Exception], None]
    ) -> None:
        self._commit = commit
        self._on_failure = on_failure
        self._gathering: Group = []
        self._committing: Group = []
        self._committer: asyncio.Task[None] | None = None
        self._failed = False

    async def wait(self, news: Sequence[News] = (), *, changed: bool) -> None:
        """Return when everything so far is durable and `news` have been called.

        `changed`: the caller has something to commit.  The caller joins the queue before the first
        suspension, so callers are served in the order of their calls.  Raises: CommitFailed.
        """
        if self._failed:
            raise CommitFailed
        loop = asyncio.get_running_loop()
        if changed or self._gathering:
            group = self._gathering
        elif self._committing:
            group = self._committing
        else:
            for call in news:
                loop.call_soon(call)
            return
        told = loop.create_future()
        group.extend(news)
        group.append(told)
        if self._committer is None:
            self._committer = asyncio.create_task(self._commit_groups(), name="store-commits")
        await told

    async def join(self) -> None:
        """Return when nothing is left to commit."""
        while self._committer is not None:
            await asyncio.wait([self._committer])

    async def _commit_groups(self) -> None:
        try:
            while self._gathering:
                self._committing, self._gathering = self._gathering, []
                try:
                    await self._commit()
                except Exception as error:  # noqa: BLE001 - any error: nothing is durable
                    self._fail(error)
                    return
                await self._tell()
        finally:
            self._committer = None

    async def _tell(self) -> None:
        """Notify the committed group.

        Watches are called through `call_soon`, which keeps the order between a watch call and the
        next step of a task whose future is done.  Until the watch calls have run, callers that
        changed nothing still join this group, behind them.
        """
        group = self._committing
        count = len(group)
        self._tell_some(group[:count])
        await asyncio.sleep(0)
        self._committing = []
        self._tell_some(group[count:])

    def _tell_some(self, group: Group) -> None:
        loop = asyncio.get_running_loop()
        for news in group:
            if not isinstance(news, asyncio.Future):
                loop.call_soon(news)
            elif not news.done():  # done already: its caller was cancelled
                news.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._failed = True
        self._on_failure(error)
        for news in (*self._committing, *self._gathering):
            if isinstance(news, asyncio.Future) and not news.done():
                news.set_exception(CommitFailed())
        self._committing, self._gathering = [], []
