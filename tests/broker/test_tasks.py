"""Background tasks fail loudly and end together."""

import asyncio

import pytest

from odradek.broker.tasks import TaskSupervisor, to_the_end
from tests.broker.coordination.asynchronous import asynchronous
from tests.support.awaiting import turns


async def fail() -> None:
    raise ZeroDivisionError("by hand")


async def wait_forever() -> None:
    await asyncio.get_running_loop().create_future()


async def do_nothing() -> None:
    pass


@asynchronous
async def test_an_exception_is_logged_and_told(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[tuple[str, str]] = []
    tasks = TaskSupervisor(lambda name, error: failures.append((name, str(error))))
    task = tasks.spawn(fail(), "flusher")
    await task
    assert failures == [("flusher", "by hand")]
    assert "task failed name=flusher" in caplog.text
    assert "ZeroDivisionError" in caplog.text  # the traceback
    assert len(tasks) == 0


@asynchronous
async def test_nobody_need_listen(caplog: pytest.LogCaptureFixture) -> None:
    await TaskSupervisor().spawn(fail(), "flusher")
    assert "task failed name=flusher" in caplog.text


@asynchronous
async def test_finished_tasks_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    tasks = TaskSupervisor()
    task = tasks.spawn(do_nothing(), "one")
    assert (len(tasks), task.get_name()) == (1, "one")
    await task
    await asyncio.sleep(0)
    assert len(tasks) == 0
    assert caplog.text == ""


@asynchronous
async def test_close_cancels_and_waits(caplog: pytest.LogCaptureFixture) -> None:
    tasks = TaskSupervisor()
    running = [tasks.spawn(wait_forever(), f"task {number}") for number in range(3)]
    await asyncio.sleep(0)
    never_started = tasks.spawn(do_nothing(), "late")
    await tasks.close()
    assert all(task.cancelled() for task in (*running, never_started))
    assert caplog.text == ""
    with pytest.raises(RuntimeError, match="spawned after close"):
        tasks.spawn(do_nothing(), "too late")


@asynchronous
async def test_a_task_may_close_its_supervisor() -> None:
    tasks = TaskSupervisor()
    other = tasks.spawn(wait_forever(), "other")

    async def close_all() -> None:
        await tasks.close()

    await tasks.spawn(close_all(), "closer")
    assert other.cancelled()


@asynchronous
async def test_what_goes_on_in_a_thread_is_awaited_to_the_end() -> None:
    thread: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(to_the_end(thread))
    await asyncio.sleep(0)
    for _ in range(3):
        waiting.cancel()
        await turns(3)
        assert not waiting.done()
        assert not thread.cancelled()
    thread.set_result(1)
    with pytest.raises(asyncio.CancelledError):
        await waiting


@asynchronous
async def test_its_result_or_error_is_that_of_the_thread() -> None:
    async def answer() -> int:
        return 5

    assert await to_the_end(answer()) == 5
    with pytest.raises(ZeroDivisionError):
        await to_the_end(fail())


@asynchronous
async def test_an_error_after_the_cancellation_is_nobodys() -> None:
    thread: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(to_the_end(thread))
    await asyncio.sleep(0)
    waiting.cancel()
    thread.set_exception(ZeroDivisionError())
    with pytest.raises(asyncio.CancelledError):
        await waiting


@asynchronous
async def test_what_is_finished_though_nobody_waits(caplog: pytest.LogCaptureFixture) -> None:
    tasks, may_end = TaskSupervisor(), asyncio.Event()

    async def work(outcome: list[str]) -> str:
        await may_end.wait()
        outcome.append("done")
        if len(outcome) > 1:
            raise ZeroDivisionError("by hand")
        return "answer"

    heard: list[str] = []
    waiting = asyncio.create_task(tasks.finish(work(heard)))
    unheard = [["before"], []]
    gone = [asyncio.create_task(tasks.finish(work(outcome))) for outcome in unheard]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    assert (len(tasks), [task.cancelled() for task in gone]) == (3, [True, True])
    may_end.set()
    assert await waiting == "answer"
    await asyncio.sleep(0)
    assert (heard, unheard) == (["done"], [["before", "done"], ["done"]])
    assert "its caller no longer waits" in caplog.text
    assert len(tasks) == 0


@asynchronous
async def test_what_is_to_be_finished_ends_with_the_broker() -> None:
    tasks = TaskSupervisor()
    waiting = asyncio.create_task(tasks.finish(wait_forever()))
    await asyncio.sleep(0)
    await tasks.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(tasks) == 0
