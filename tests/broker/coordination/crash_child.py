"""A process that uses a store and kills itself at a random moment, many times over.

    python crash_child.py DIRECTORY ROUND...

Each round is a fork with a store of its own, DIRECTORY/ROUND.sqlite3.  Whatever the store answered
is a line of DIRECTORY/ROUND.acked before anything else happens.
"""

import asyncio
import os
import random
import sys
import threading
from pathlib import Path

from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.interface import Create, Session, Set
from odradek.broker.coordination.journal import Saved, SqliteJournal
from odradek.broker.runtime import Runtime

CRASHED = 77
WORKERS = 4


class CrashingJournal(SqliteJournal):
    """Ends the process when SQLite is about to run its `countdown`-th statement."""

    def __init__(self, path: Path, countdown: int) -> None:
        super().__init__(path)
        self._countdown = countdown

    def open(self) -> Saved:
        saved = super().open()
        assert self._connection is not None
        self._connection.set_trace_callback(self._count)
        return saved

    def _count(self, _: str) -> None:
        self._countdown -= 1
        if self._countdown == 0:
            os._exit(CRASHED)


async def work(session: Session, name: str, acked: int) -> None:
    """Count up in one node, and in two that change together; queue behind all others."""
    for count in range(100_000):
        data = b"%d" % count
        await session.set(f"/{name}", data)
        os.write(acked, f"{name} {count}\n".encode())
        await session.multi([Set(f"/{name}/left", data), Set(f"/{name}/right", data)])
        os.write(acked, f"{name}/left {count}\n".encode())
        path = await session.create("/queue/n-", sequential=True)
        os.write(acked, f"{path.removeprefix('/')} 0\n".encode())


async def run(directory: Path, round_: str) -> None:
    chance = random.Random(int(round_))
    by_time = chance.random() < 0.5
    journal = CrashingJournal(
        directory / f"{round_}.sqlite3", 0 if by_time else chance.randrange(1, 200)
    )
    store = EmbeddedStore(directory / round_, runtime=Runtime.system(), journal=journal)
    await store.start()
    session = await store.open_session(10_000)
    acked = os.open(directory / f"{round_}.acked", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    names = [f"worker{index}" for index in range(WORKERS)]
    for name in names:
        tree = [f"/{name}", f"/{name}/left", f"/{name}/right"]
        await session.multi([Create(path, b"-1") for path in tree])
        os.write(acked, f"{name} -1\n{name}/left -1\n".encode())
    await session.create("/queue")
    if by_time:  # in the midst of a commit too: its thread lets others run meanwhile
        timer = threading.Timer(chance.random() * 0.03, os._exit, [CRASHED])
        timer.start()
    await asyncio.gather(*[work(session, name, acked) for name in names])


def main() -> None:
    directory, *rounds = sys.argv[1:]
    for round_ in rounds:
        child = os.fork()
        if child == 0:
            asyncio.run(run(Path(directory), round_))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != CRASHED:
            sys.exit(f"round {round_} ended with {status}")


if __name__ == "__main__":
    main()
