"""Our broker in a thread of the test, which it takes for another broker.

One that is alone takes no requests between brokers, and to have others would cost processes.
"""

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from tests.broker.running import HOST, make_broker


class PeerServer:
    """A broker with the face of a `Server`."""

    host = HOST
    pid = -1
    output = ""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.data_dir = directory / "data"
        self.port = -1
        self._directory = directory
        self._settings = settings
        self._thread: threading.Thread | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start and return when it serves."""
        self._directory.mkdir(parents=True, exist_ok=True)
        started: Future[int] = Future()
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(started,))
        self._thread.start()
        self.port = started.result()

    def _run(self, started: "Future[int]") -> None:
        try:
            self._loop.run_until_complete(self._serve(started))
        except BaseException as failed:
            if started.done():
                raise
            started.set_exception(failed)
        finally:
            self._loop.close()

    async def _serve(self, started: "Future[int]") -> None:
        broker, runtime = make_broker(self._directory, self._settings)
        try:
            await broker.start()
            broker.node.local.is_alone = False
            started.set_result(broker.port)
            await self._end.wait()
        finally:
            await broker.stop()
            runtime.close()

    def stop(self) -> None:
        """Stop it, and wait until it has stopped."""
        if self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()

    kill = close = stop
