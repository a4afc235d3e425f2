"""A broker in this process, on an event loop and a thread of its own.

It shares nothing with the loop of a test, so tests without asyncio, with it, or with another
library all can use it. It starts faster than a child process, but cannot be killed.
"""

import asyncio
import threading
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from .errors import BrokerFailed
from .ready import Ready

STOP_TIMEOUT_S: Final = 20.0


class InProcessBroker:
    """`odradek.broker.server.Broker` on a thread; `start` may follow `stop`."""

    pid: int | None = None
    log = ""

    def __init__(self, *, start_timeout_s: float) -> None:
        self._start_timeout_s = start_timeout_s
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._settled = threading.Event()
        self._ready: Ready | None = None
        self._error: BaseException | None = None

    @property
    def running(self) -> bool:
        """Whether its thread is there."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, *, port: int, data_dir: Path, settings: Mapping[str, str]) -> Ready:
        """Return once it serves.  Raises: BrokerFailed."""
        self._settled.clear()
        self._ready = self._error = None
        overrides = {
            **settings,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(data_dir),
        }
        self._thread = threading.Thread(
            target=self._run, args=(overrides,), name="odradek", daemon=True
        )
        self._thread.start()
        if not self._settled.wait(self._start_timeout_s):
            self._ask_to_stop()
            raise BrokerFailed(f"the broker was not ready after {self._start_timeout_s:g} s")
        if self._ready is None:
            self._thread.join(STOP_TIMEOUT_S)
            raise BrokerFailed(f"the broker did not start: {self._error}") from self._error
        return self._ready

    def stop(self) -> None:
        """Stop it cleanly.  Raises: BrokerFailed if that fails or it had ended on its own."""
        if self._thread is None:
            return
        self._ask_to_stop()
        self._thread.join(STOP_TIMEOUT_S)
        if self.running:
            raise BrokerFailed(f"the broker did not stop within {STOP_TIMEOUT_S:g} s")
        self._thread = None
        if self._error is not None:
            raise BrokerFailed(f"the broker failed: {self._error}") from self._error

    def kill(self) -> None:
        """Raises: RuntimeError always."""
        raise RuntimeError("a broker in this process cannot be killed: use in_process=False")

    def _ask_to_stop(self) -> None:
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):  # the loop is closed: it ended on its own
                self._loop.call_soon_threadsafe(self._stop.set)

    def _run(self, overrides: Mapping[str, str]) -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._serve(overrides))
        except BaseException as error:  # noqa: BLE001  # raised again by start() or stop()
            self._error = error
        finally:
            self._settled.set()

    async def _serve(self, overrides: Mapping[str, str]) -> None:
        from odradek.broker.config import load_config
        from odradek.broker.runtime import Runtime
        from odradek.broker.server import Broker

        started_s = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        runtime = Runtime.system()
        try:
            broker = Broker(load_config(overrides=overrides), runtime)
            await broker.start()
            self._ready = Ready(
                addresses={broker.broker_id: (broker.host, broker.port)},
                startup_ms=round((time.monotonic() - started_s) * 1000),
            )
            self._settled.set()
            reason = await self._failure_before_stop(broker.failed())
            await broker.stop()
        finally:
            runtime.close()
        if reason is not None:
            raise BrokerFailed(reason)

    async def _failure_before_stop(self, failure: Coroutine[object, object, str]) -> str | None:
        assert self._stop is not None
        failed = asyncio.ensure_future(failure)
        asked = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((failed, asked), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if failed.done():
            return failed.result()
        failed.cancel()
        return None
