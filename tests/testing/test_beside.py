"""What is undone after a cancelled wait is undone when the call is through, not before."""

import asyncio
import threading

from odradek.testing.beside import beside_the_loop
from tests.support.awaiting import turns, until


def test_undo_follows_the_call_though_every_task_is_cancelled() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), list[str]()

    def call() -> None:
        begun.set()
        assert go_on.wait(30)
        done.append("called")

    async def main() -> None:
        waiting = asyncio.ensure_future(beside_the_loop(call, undo=lambda: done.append("undone")))
        await until(begun.is_set)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        assert waiting in tasks
        for task in tasks:  # as asyncio.run does at its end
            task.cancel()
        await asyncio.wait(tasks)
        await turns()
        assert done == []
        go_on.set()
        await until(lambda: done == ["called", "undone"])

    asyncio.run(main())
