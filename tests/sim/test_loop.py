"""The simulated loop by itself, without a broker."""

import asyncio
import gc
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import pytest

from .leftovers import Deadlock, Leftovers, SimulationError
from .loop import SimLoop, simulate
from .node import NodeCrashed
from .refused import Refused
from .trace import Trace

SEEDS = range(10)


def test_virtual_hours_pass_in_no_time() -> None:
    async def main(loop: SimLoop) -> float:
        await asyncio.sleep(3_600)
        async with asyncio.timeout(7_200):
            await asyncio.sleep(3_600)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.create_future(), 10)
        return loop.time()

    start = time.monotonic()
    outcome = simulate(main, 1)
    assert 7_210 < outcome.value < 7_211
    assert time.monotonic() - start < 60  # by far, and a machine may stand still for some seconds


def test_a_node_keeps_the_order_of_call_soon_and_nodes_mix_by_seed() -> None:
    async def main(loop: SimLoop) -> list[str]:
        order: list[str] = []
        for name in ("a", "b"):
            context = loop.node(name).context()
            for number in range(5):
                loop.call_soon(order.append, f"{name}{number}", context=context)
        await asyncio.sleep(1)
        return order

    orders = [simulate(main, seed).value for seed in SEEDS]
    for order in orders:
        assert [entry for entry in order if entry[0] == "a"] == ["a0", "a1", "a2", "a3", "a4"]
        assert [entry for entry in order if entry[0] == "b"] == ["b0", "b1", "b2", "b3", "b4"]
    assert len({tuple(order) for order in orders}) > 5


def test_polling_makes_progress() -> None:
    async def main(loop: SimLoop) -> bool:
        fired: list[bool] = []
        loop.call_later(0.01, fired.append, True)
        while not fired:  # noqa: ASYNC110 - the point of the test
            await asyncio.sleep(0)
        return True

    assert simulate(main, 1).value


def test_a_deadlock_names_who_waits() -> None:
    async def stuck(loop: SimLoop) -> None:
        await loop.create_future()

    with pytest.raises(Deadlock, match=r"main: task .*stuck at .*test_loop\.py:\d+") as caught:
        simulate(stuck, 5)
    assert "seed 5" in caught.value.__notes__[0]


def test_leftover_tasks_timers_and_servers_are_found() -> None:
    async def leave_task(loop: SimLoop) -> None:
        kept.append(loop.create_task(asyncio.sleep(1)))

    async def leave_timer(loop: SimLoop) -> None:
        loop.call_later(1, print)

    async def leave_server(loop: SimLoop) -> None:
        await loop.node("broker").run(loop.create_server(asyncio.Protocol, "localhost", 9092))

    kept: list[asyncio.Task[None]] = []
    for program, what in (
        (leave_task, "task sleep"),
        (leave_timer, "timer at"),
        (leave_server, "broker: server"),
    ):
        with pytest.raises(Leftovers, match=what):
            simulate(program, 1)


def test_a_crashed_node_leaves_nothing() -> None:
    async def main(loop: SimLoop) -> None:
        node = loop.node("broker")
        await node.run(loop.create_server(asyncio.Protocol, "localhost", 9092))
        task = node.start(asyncio.sleep(1_000))
        await asyncio.sleep(0.1)
        loop.crash(node)
        assert not task.done()

    simulate(main, 1)


def test_exceptions_that_nobody_awaits_end_the_simulation() -> None:
    async def main(loop: SimLoop) -> None:
        loop.call_soon(int, "no number")
        await asyncio.sleep(1)

    with pytest.raises(SimulationError, match="invalid literal"):
        simulate(main, 1)


def test_the_operating_system_is_refused_with_a_hint() -> None:
    async def read(loop: SimLoop) -> None:
        loop.add_reader(0, print)

    async def send(loop: SimLoop) -> None:
        await loop.sendfile(None, None)

    async def thread(_loop: SimLoop) -> None:
        await asyncio.to_thread(print)

    hints = {read: "transports", send: "transport", thread: "offload"}
    for program, hint in hints.items():
        with pytest.raises(Refused, match=hint):
            simulate(program, 1)


@pytest.mark.slow
def test_a_crash_runs_no_clean_up_and_fails_who_waits_outside() -> None:
    async def work(log: list[str]) -> None:
        log.append("began")
        try:
            await asyncio.sleep(10)
        finally:
            log.append("cleaned up")

    async def main(loop: SimLoop) -> list[str]:
        log: list[str] = []
        node = loop.node("broker")
        loop.call_later(5, loop.crash, node)
        node.start(work(log))
        with pytest.raises(NodeCrashed):
            await node.run(asyncio.sleep(100))
        again = loop.node("broker")
        await again.run(work(log))
        gc.collect()  # a task that waits is part of a cycle
        return log

    assert simulate(main, 3).value == ["began", "began", "cleaned up"]


def test_a_name_is_not_started_twice() -> None:
    async def main(loop: SimLoop) -> None:
        loop.node("broker")
        with pytest.raises(ValueError, match="still running"):
            loop.node("broker")
        with pytest.raises(ValueError, match="from outside"):
            loop.crash(loop.main)

    simulate(main, 1)


def test_cancelling_a_wait_cancels_the_work_on_the_node() -> None:
    async def main(loop: SimLoop) -> bool:
        node = loop.node("broker")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(node.run(asyncio.sleep(100)), 1)
        await asyncio.sleep(1)
        return not node.pending_tasks()

    assert simulate(main, 1).value


def test_asynchronous_generators_are_closed() -> None:
    closed: list[bool] = []

    async def numbers() -> AsyncGenerator[int]:
        try:
            for number in range(10):
                yield number
        finally:
            await asyncio.sleep(1)
            closed.append(True)

    async def main(_loop: SimLoop) -> None:
        async for number in numbers():
            if number == 3:
                break
        await asyncio.sleep(2)

    simulate(main, 1)
    assert closed == [True]


async def _ping(loop: SimLoop) -> Trace:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1_000):
            writer.write(data)
            await writer.drain()
        writer.close()

    broker = loop.node("broker")
    server = await broker.run(asyncio.start_server(serve, "127.0.0.1", 9092))
    reader, writer = await asyncio.open_connection("127.0.0.1", 9092)
    for size in (1, 100, 100_000):
        writer.write(bytes(size))
        assert await reader.readexactly(size) == bytes(size)
    writer.close()
    await writer.wait_closed()
    server.close()
    await asyncio.sleep(1)
    return loop.trace


def _digests(program: Callable[[SimLoop], Coroutine[Any, Any, object]]) -> list[str]:
    return [simulate(program, seed).trace.digest for seed in SEEDS]


@pytest.mark.slow
def test_one_seed_one_trace() -> None:
    first, second = _digests(_ping), _digests(_ping)
    assert first == second
    assert len(set(first)) == len(first)
    assert "connect" in str(simulate(_ping, 1).trace)
