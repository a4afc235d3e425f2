"""Clock, threads and the system's runtime."""

import asyncio
import resource
import threading

import pytest

from odradek.broker.runtime import (
    DaemonOffload,
    Offload,
    Runtime,
    SystemClock,
    ThreadOffload,
    allow_many_files,
)
from odradek.storage.files import RealFileSystem
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.coordination.fakes import fake_runtime


def name_of_thread(prefix: str) -> str:
    return prefix + threading.current_thread().name


def threads_named(prefix: str) -> set[threading.Thread]:
    """Of those that live: clients that earlier tests have closed may still end or begin some."""
    return {thread for thread in threading.enumerate() if thread.name.startswith(prefix)}


def fail(message: str) -> None:
    raise ValueError(message)


def test_clocks() -> None:
    clock = SystemClock()
    first, second = clock.now_ms(), clock.now_ms()
    assert 0 <= second - first < 60_000
    assert clock.wall_ms() > 1_700_000_000_000
    assert type(first) is type(clock.wall_ms()) is int


@asynchronous
async def test_offload_runs_in_a_named_thread() -> None:
    offload = ThreadOffload("work", threads_max=2)
    assert await offload(name_of_thread, "> ") == "> work_0"
    with pytest.raises(ValueError, match="broken"):
        await offload(fail, "broken")
    offload.close()
    assert not threads_named("work_")


@asynchronous
async def test_offload_runs_at_once_as_much_as_it_has_threads() -> None:
    offload = ThreadOffload("work", threads_max=3)
    meeting = threading.Barrier(3)
    await asyncio.gather(*[offload(meeting.wait, 10.0) for _ in range(3)])
    offload.close()


@asynchronous
async def test_close_finishes_what_is_queued_and_refuses_more() -> None:
    offload = ThreadOffload("work", threads_max=1)
    done: list[int] = []
    calls = [offload(done.append, number) for number in range(5)]
    offload.close()
    offload.close()
    assert done == [0, 1, 2, 3, 4]
    await asyncio.gather(*calls)
    with pytest.raises(RuntimeError, match="work is closed"):
        offload(done.append, 5)


@asynchronous
async def test_a_cancelled_wait_does_not_stop_the_function() -> None:
    offload = ThreadOffload("work", threads_max=1)
    loop = asyncio.get_running_loop()
    started, go_on, finished = asyncio.Event(), threading.Event(), threading.Event()

    def function() -> None:
        loop.call_soon_threadsafe(started.set)
        go_on.wait(10)
        finished.set()

    waiting = asyncio.ensure_future(offload(function))
    await started.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    go_on.set()
    offload.close()
    assert finished.is_set()


@asynchronous
async def test_the_system_runtime_ends_its_threads() -> None:
    others = threads_named("odradek-")
    runtime = Runtime.system()
    assert runtime.store_offload is not None and runtime.write_offload is not None
    assert runtime.compress_offload is not None
    assert (await runtime.offload(name_of_thread, "")).startswith("odradek-offload")
    assert (await runtime.store_offload(name_of_thread, "")).startswith("odradek-store")
    assert (await runtime.write_offload(name_of_thread, "")).startswith("odradek-write")
    assert (await runtime.compress_offload(name_of_thread, "")).startswith("odradek-compress")
    assert 0 <= runtime.random.random() < 1
    runtime.close()
    assert threads_named("odradek-") <= others


@asynchronous
async def test_a_simulators_runtime_has_no_threads() -> None:
    runtime = fake_runtime()
    offload: Offload = runtime.offload
    assert await offload(name_of_thread, "") == threading.main_thread().name
    runtime.close()


def test_log_files_leave_half_of_few_descriptors_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (100, 200))
    runtime = Runtime.system()
    assert isinstance(runtime.files, RealFileSystem)
    assert runtime.files.open_files_max == 50
    runtime.close()


def test_tests_have_as_many_descriptors_as_a_broker() -> None:
    """tests/conftest.py has asked for them: many tests have their brokers in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard


def test_as_many_descriptors_as_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (100, 200))
    monkeypatch.setattr(resource, "setrlimit", lambda *limit: asked.append(limit))
    allow_many_files()
    assert asked == [(resource.RLIMIT_NOFILE, (200, 200))]


@asynchronous
async def test_calls_that_may_never_end() -> None:
    offload = DaemonOffload("unending")
    assert await offload(name_of_thread, "> ") == "> unending"
    with pytest.raises(ValueError, match="broken"):
        await offload(fail, "broken")


def test_nobody_waits_for_a_call_that_does_not_end() -> None:
    """Neither the runtime, nor the loop, nor the process; what comes late goes nowhere."""
    answers, runtime = threading.Event(), Runtime.system()
    assert runtime.unending_offload is not None

    async def begin_and_give_up(offload: Offload) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(offload(answers.wait, 60.0), 0.01)

    asyncio.run(begin_and_give_up(runtime.unending_offload))
    runtime.close()
    (thread,) = threads_named("odradek-read")
    assert thread.daemon
    answers.set()
    thread.join(10)
