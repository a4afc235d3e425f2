"""The admin API: HTTP/1.1 with JSON, by which tests and tools drive the brokers of a process.

`routes.py` is its table; `server.py` speaks HTTP; a file for each resource does what is asked.
A process without an admin API imports nothing of this room but this file.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..config import Config
    from ..local_cluster import LocalCluster
    from ..runtime import Runtime
    from ..server import Broker


def prepare_admin(config: "Config", runtime: "Runtime") -> None:
    """Before brokers are made, give them what the admin API can change: clock, network, disks."""
    if config.odradek_admin_listener:
        from odradek.storage.files import RealFileSystem

        from ..faults.disks import BreakableFiles
        from ..movable_clock import MovableClock
        from ..network.network import Network

        runtime.clock = MovableClock(runtime.clock)
        runtime.network = Network()
        files = runtime.files
        assert isinstance(files, RealFileSystem)
        runtime.files = BreakableFiles(open_files_max=files.open_files_max, syncs=files.syncs)


@asynccontextmanager
async def serve_admin(
    config: "Config", running: "Broker | LocalCluster", runtime: "Runtime"
) -> AsyncIterator[str]:
    """Serve the admin API of brokers that run; yields its URL, or an empty text if there is none.

    The caller must have called `prepare_admin` with the same runtime.
    Raises: StartupError.
    """
    if not config.odradek_admin_listener:
        yield ""
        return
    from ..settings.admin import parse_admin_listener
    from .controls import Controls
    from .server import AdminServer

    address = parse_admin_listener(config.odradek_admin_listener)
    assert address is not None
    controls = Controls(running=running, runtime=runtime)
    server = AdminServer(address, config.odradek_admin_token, controls)
    try:
        await server.open()
        yield str(server.address)
    finally:
        await server.close()
        controls.network.heal()  # before the brokers stop, which takes long if it is split
