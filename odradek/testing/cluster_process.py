"""The child process of a fixture with several brokers, controlled through standard input.

`python -m odradek.testing.cluster_process JSON`. It prints the ready line and that of the admin
API, then reads lines `COMMAND BROKER` and answers each with an empty line, or with an error. When
its input ends, it stops the brokers and exits.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

from odradek.broker.admin_api import prepare_admin, serve_admin
from odradek.broker.config import Config, ConfigError, load_config
from odradek.broker.local_cluster import LocalCluster
from odradek.broker.runtime import Runtime, allow_many_files
from odradek.broker.server import StartupError
from odradek.ready_line import admin_line, ready_line
from odradek.storage.errors import StorageError

from .commands import obey

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
                await _obey_until_end(cluster)
        finally:
            await cluster.stop()
    finally:
        runtime.close()


async def _obey_until_end(cluster: LocalCluster) -> None:
    """Execute commands until the input ends.  Raises: StartupError if a broker fails by itself."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    failed = asyncio.ensure_future(cluster.failed())
    try:
        while not failed.done():
            line = asyncio.ensure_future(lines.readline())
            await asyncio.wait((failed, line), return_when=asyncio.FIRST_COMPLETED)
            if not line.done():
                line.cancel()
            elif words := line.result().decode().split():
                _say(await _answer(cluster, words[0], int(words[1])))
            else:
                return
        raise StartupError(failed.result())
    finally:
        failed.cancel()


async def _answer(cluster: LocalCluster, command: str, broker_id: int) -> str:
    try:
        await obey(cluster, command, broker_id)
    except (StartupError, StorageError) as error:
        return f"broker {broker_id}: {error}".replace("\n", " ")
    except KeyError:
        return f"broker {broker_id} is not there to {command}"
    return ""


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def main() -> None:
    """Run until standard input ends."""
    logging.basicConfig(format=LOG_FORMAT, level=logging.INFO)
    try:
        asyncio.run(_run(json.loads(sys.argv[1])))
    except (ConfigError, StartupError, StorageError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
