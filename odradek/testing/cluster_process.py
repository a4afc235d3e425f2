"""The child process of a fixture with several brokers.

`python -m odradek.testing.cluster_process FILE`, with JSON in it. It prints the ready line and that
of the admin API. On SIGTERM, and when its input ends, it stops the brokers and exits.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odradek.broker.admin_api import prepare_admin, serve_admin
from odradek.broker.config import Config, ConfigError, load_config
from odradek.broker.local_cluster import LocalCluster
from odradek.broker.runtime import Runtime, allow_many_files
from odradek.broker.server import StartupError
from odradek.ready_line import admin_line, ready_line
from odradek.storage.errors import StorageError

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


async def _run(given: Mapping[str, Any]) -> None:
    def load(own: Mapping[str, str]) -> Config:
        return load_config(overrides={**given["settings"], **own})

    allow_many_files()
    config = load({})
    runtime = Runtime.system(syncs=config.odradek_fsync)
    prepare_admin(config, runtime)
    try:
        cluster = LocalCluster(
            given["data_dir"], given["brokers"], load, runtime, ports=given["ports"]
        )
        await cluster.start()
        try:
            async with serve_admin(config, cluster, runtime) as admin_url:
                _say(ready_line(list(cluster.brokers.values()), cluster.directory))
                _say(admin_line(admin_url))
                await _serve_until_end(cluster)
        finally:
            await cluster.stop()
    finally:
        runtime.close()


async def _serve_until_end(cluster: LocalCluster) -> None:
    """Return once this process is to end.  Raises: StartupError if a broker fails by itself."""
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, end.set)

    def read() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            end.set()
            loop.remove_reader(sys.stdin)

    loop.add_reader(sys.stdin, read)
    failed = asyncio.ensure_future(cluster.failed())
    ended = asyncio.ensure_future(end.wait())
    await asyncio.wait((failed, ended), return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    if failed.done():
        raise StartupError(failed.result())
    failed.cancel()


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def main() -> None:
    """Run until standard input ends."""
    logging.basicConfig(format=LOG_FORMAT, level=logging.INFO)
    try:
        asyncio.run(_run(json.loads(Path(sys.argv[1]).read_text())))
    except (ConfigError, StartupError, StorageError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
