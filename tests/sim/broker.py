"""The whole broker as a simulated process: started, stopped, killed, started again on its files."""

from collections.abc import Mapping
from pathlib import Path

from odradek.broker.config import load_config
from odradek.broker.server import Broker

from .loop import SimLoop
from .process import HOST, SimProcess

SETTINGS = {"odradek.loop.stall.check.ms": "0"}
"""Of every simulated broker: its loop is never late."""


class SimBroker:
    """One broker that may be started again after `stop` or `crash`, at the same address."""

    def __init__(
        self, loop: SimLoop, data_dir: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        self.data_dir = data_dir
        self.settings = dict(settings or {})
        self.port = 0
        self._process = SimProcess(loop, "broker", data_dir)
        self.clock = self._process.clock
        self._broker: Broker | None = None

    async def start(self) -> None:
        """Start the process and return when it serves."""
        runtime = self._process.begin()
        settings = {
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": str(self.data_dir),
            **SETTINGS,
            **self.settings,
        }
        self._broker = Broker(load_config(overrides=settings), runtime, portable=True)
        await self._process.run(self._broker.start())
        self.port = self._broker.port

    async def stop(self) -> None:
        """Stop the process in good order."""
        assert self._broker is not None
        await self._process.run(self._broker.stop())
        self._process.end()

    def crash(self) -> None:
        """Kill the process; on disk is what had been written."""
        self._process.crash()

    def buffered_bytes(self) -> int:
        """What waits in the broker's memory for clients to read."""
        assert self._process.node is not None
        return sum(each.get_write_buffer_size() for each in self._process.node.transports)
