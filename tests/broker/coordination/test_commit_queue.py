"""Who waits for which commit, and what is told when."""

import asyncio

import pytest

from odradek.broker.coordination.commit_queue import CommitFailed, CommitQueue
from tests.broker.coordination.asynchronous import asynchronous
from tests.support.awaiting import turns


class Commits:
    """Commits that a test lets through, or fails, one by one."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.started: list[asyncio.Future[None]] = []
        self.queue = CommitQueue(self._commit, on_failure=self.failures.append)

    async def _commit(self) -> None:
        self.started.append(asyncio.get_running_loop().create_future())
        await self.started[-1]


def waits(queue: CommitQueue, changed: bool) -> bool:
    """Whether a caller who comes right now has to wait."""
    waiting = queue.wait(changed=changed)
    try:
        waiting.send(None)
    except StopIteration:
        return False
    waiting.close()
    return True


@asynchronous
async def test_a_reader_waits_for_the_commit_that_is_under_way_and_no_longer() -> None:
    commits = Commits()
    queue = commits.queue
    assert not waits(queue, changed=False)
    writer = asyncio.create_task(queue.wait(changed=True))
    await turns()
    reader = asyncio.create_task(queue.wait(changed=False))
    await turns()
    late_writer = asyncio.create_task(queue.wait(changed=True))
    await turns()
    late_reader = asyncio.create_task(queue.wait(changed=False))
    await turns()
    assert not reader.done()
    commits.started[0].set_result(None)
    await turns()
    assert writer.done()
    assert reader.done()
    assert not late_writer.done()
    assert not late_reader.done()
    commits.started[1].set_result(None)
    await asyncio.gather(late_writer, late_reader)
    await queue.join()
    assert len(commits.started) == 2


@asynchronous
async def test_a_reader_between_a_commit_and_its_news_waits() -> None:
    commits = Commits()
    heard: list[str] = []

    def read() -> None:
        assert waits(commits.queue, changed=False)
        heard.append("read")

    writer = asyncio.create_task(commits.queue.wait([lambda: heard.append("news")], changed=True))
    await turns()
    loop = asyncio.get_running_loop()
    commits.started[0].set_result(None)
    loop.call_soon(read)  # after the step in which the committer tells, before what it tells
    await writer
    assert heard == ["read", "news"]
    await commits.queue.join()
    assert not waits(commits.queue, changed=False)


@asynchronous
async def test_a_failure_is_for_everybody_and_for_good() -> None:
    commits = Commits()
    heard: list[str] = []
    news = [lambda: heard.append("news")]
    first = asyncio.create_task(commits.queue.wait(news, changed=True))
    await turns()
    second = asyncio.create_task(commits.queue.wait(news, changed=True))
    await turns()
    broken = ZeroDivisionError()
    commits.started[0].set_exception(broken)
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(result) for result in results] == [CommitFailed, CommitFailed]
    assert commits.failures == [broken]
    for changed in (True, False):
        with pytest.raises(CommitFailed):
            await commits.queue.wait(news, changed=changed)
    await commits.queue.join()
    assert (len(commits.started), heard) == (1, [])
