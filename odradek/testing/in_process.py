"""Brokers in this process, on an event loop and a thread of their own.

They share nothing with a test's event loop, so tests without asyncio, with it, or with another
library can all use them. They start faster than a child process. A single broker cannot be killed;
one of several can.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from odradek.collecting import collecting_later

from .errors import BrokerFailed, hides
from .ready import Ready, Start

if TYPE_CHECKING:
    from odradek.broker.config import Config
    from odradek.broker.runtime import Runtime
    from odradek.broker.server import Broker

__tracebackhide__ = hides
STOP_TIMEOUT_S: Final = 20.0


class InProcessBroker:
    """One or several brokers on a thread; `start` may follow `stop`."""

    pid: int | None = None
    log = ""

    def __init__(self, *, start_timeout_s: float, brokers: int = 1) -> None:
        self._start_timeout_s = start_timeout_s
        self._brokers = brokers
        self._ports: Sequence[int] = ()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._is_to_stop = False
        self._settled = threading.Event()
        self._ready: Ready | None = None
        self._error: BaseException | None = None

    @property
    def running(self) -> bool:
        """Whether its thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, given: Start) -> Ready:
        """Start it, and return once it serves.

        Raises: BrokerFailed.
        """
        self._settled.clear()
        self._is_to_stop = False
        self._ports = given.ports
        self._ready = self._error = None
        overrides = {
            **given.of_process(port=given.first_port),
            "log.dirs": str(given.data_dir),
        }
        self._thread = threading.Thread(
            target=self._run, args=(overrides,), name="odradek", daemon=True
        )
        with collecting_later():  # the first start imports the broker
            self._thread.start()
            has_settled = self._settled.wait(self._start_timeout_s)
        if not has_settled:
            self._ask_to_stop()
            raise BrokerFailed(f"the broker was not ready after {self._start_timeout_s:g} s")
        if self._ready is None:
            self._thread.join(STOP_TIMEOUT_S)
            raise BrokerFailed(f"the broker did not start: {self._error}") from self._error
        return self._ready

    def stop(self) -> None:
        """Stop it cleanly.  Raises: BrokerFailed if that fails or it had ended on its own."""
        if self._thread is None or self._thread.ident is None:  # a Ctrl-C came before it started
            return
        self._ask_to_stop()
        self._thread.join(STOP_TIMEOUT_S)
        if self.running:
            raise BrokerFailed(f"the broker did not stop within {STOP_TIMEOUT_S:g} s")
        self._thread = None
        if self._error is not None:
            raise BrokerFailed(f"the broker failed: {self._error}") from self._error

    def kill(self) -> None:
        """Refuse: a thread cannot be killed.  Raises: RuntimeError always."""
        raise RuntimeError("a broker in this process cannot be killed: use in_process=False")

    def _ask_to_stop(self) -> None:
        self._is_to_stop = True
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
        from odradek.broker.admin_api import prepare_admin
        from odradek.broker.config import load_config
        from odradek.broker.runtime import Runtime

        started_s = time.monotonic()

        def load(own: Mapping[str, str]) -> "Config":
            return load_config(overrides={**overrides, **own})

        config = load({})
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        if self._is_to_stop:  # a Ctrl-C came before this could be told
            self._stop.set()
        runtime = Runtime.system(syncs=config.odradek_fsync)
        prepare_admin(config, runtime)
        try:
            if self._brokers == 1:
                reason = await self._serve_one(config, runtime, started_s)
            else:
                reason = await self._serve_several(config, load, runtime, started_s)
        finally:
            runtime.close()
        if reason is not None:
            raise BrokerFailed(reason)

    async def _serve_one(
        self, config: "Config", runtime: "Runtime", started_s: float
    ) -> str | None:
        from odradek.broker.admin_api import serve_admin
        from odradek.broker.server import Broker

        broker = Broker(config, runtime)
        await broker.start()
        try:
            async with serve_admin(config, broker, runtime):
                self._settle([broker], started_s)
                return await self._failure_before_stop(broker.failed())
        finally:
            await broker.stop()

    async def _serve_several(
        self,
        config: "Config",
        load: "Callable[[Mapping[str, str]], Config]",
        runtime: "Runtime",
        started_s: float,
    ) -> str | None:
        from odradek.broker.admin_api import serve_admin
        from odradek.broker.local_cluster import LocalCluster

        cluster = LocalCluster(config.data_dir, self._brokers, load, runtime, ports=self._ports)
        await cluster.start()
        try:
            async with serve_admin(config, cluster, runtime):
                self._settle(list(cluster.brokers.values()), started_s)
                return await self._failure_before_stop(cluster.failed())
        finally:
            await cluster.stop()

    def _settle(self, brokers: "Sequence[Broker]", started_s: float) -> None:
        self._ready = Ready(
            addresses={broker.broker_id: (broker.host, broker.port) for broker in brokers},
            startup_ms=round((time.monotonic() - started_s) * 1000),
        )
        self._settled.set()

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
