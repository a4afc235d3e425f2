"""`odradek serve`: runs one broker, or several, until SIGTERM or SIGINT.

Everything that this module imports delays every start of a broker, so it imports no Kafka client
and nothing for terminals.
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import click

from odradek.broker.admin_api import prepare_admin, serve_admin
from odradek.broker.config import Config, ConfigError, load_config
from odradek.broker.running import brokers_of
from odradek.broker.runtime import Runtime, allow_many_files
from odradek.broker.server import Broker, StartupError
from odradek.early_signals import SIGNALS, end_at_once
from odradek.ready_line import admin_line, bracketed, brokers_line, ready_line
from odradek.storage.errors import StorageError

from .commands import command
from .errors import CommandError
from .logs import FORMATS, LEVELS, set_up_logging
from .options import parse_pairs

if TYPE_CHECKING:
    from odradek.broker.local_cluster import LocalCluster
    from odradek.secure.files import SecureFiles


@command(takes_signals=True)
@click.option(
    "-c",
    "--config",
    "config_file",
    metavar="FILE",
    help="A server.properties of Kafka.",
)
@click.option(
    "--data-dir",
    metavar="DIR[,DIR]",
    help="The directory for records, or several on different disks: log.dirs.",
)
@click.option(
    "--listen", metavar="HOST:PORT", help="The address for clients; port 0 selects a free port."
)
@click.option(
    "--secure",
    is_flag=True,
    help="Require TLS and a password of all clients. The first start creates certificates and the "
    "user admin in the data directory. Every start writes files for clients there, and prints "
    "their paths.",
)
@click.option(
    "--brokers",
    type=click.IntRange(1),
    default=1,
    help="The number of brokers in this process. Several are one cluster: their directories are "
    "DIR/broker-N; ids and ports count up from those of the first broker.",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT[,…][/CHROOT]",
    help="Join the cluster of this ZooKeeper: zookeeper.connect.",
)
@click.option(
    "--admin",
    metavar="HOST:PORT",
    help="The address of the admin API, which lets tests control brokers: odradek.admin.listener.",
)
@click.option("--broker-id", type=click.IntRange(0), help="The id of this broker: broker.id.")
@click.option(
    "--set",
    "--override",
    "overrides",
    metavar="NAME=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="Any other setting of Kafka's brokers; overrides FILE; may be repeated.",
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="plain",
    show_default=True,
    help="Format of the log on stderr.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="The lowest level that is logged.",
)
@click.option(
    "--stop-with-stdin",
    is_flag=True,
    help="Stop when standard input ends, so that the broker dies with the process that started it.",
)
def serve(
    config_file: str | None,
    data_dir: str | None,
    listen: str | None,
    secure: bool,
    brokers: int,
    zookeeper: str | None,
    admin: str | None,
    broker_id: int | None,
    overrides: dict[str, str],
    log_format: str,
    log_level: str,
    stop_with_stdin: bool,
) -> None:
    """Run a broker, or several, until SIGTERM or SIGINT.

    Once it serves, it prints one line on standard output:
    odradek ready: PROTOCOL://HOST:PORT broker=N data=DIR startup_ms=M

    With --admin this follows: odradek admin: http://HOST:PORT/; with several brokers, how to stop,
    kill and start one of them.
    """
    if not __debug__:
        raise CommandError("odradek serve does not run under python -O: its checks are assertions")
    gc.freeze()  # what is imported stays, so the collector need not scan it during the start
    set_up_logging(log_format, log_level)
    for option, name, value in (
        ("--data-dir", "log.dirs", data_dir),
        ("--listen", "listeners", None if listen is None or secure else f"PLAINTEXT://{listen}"),
        ("--zookeeper", "zookeeper.connect", zookeeper),
        ("--admin", "odradek.admin.listener", admin),
        ("--broker-id", "broker.id", None if broker_id is None else str(broker_id)),
    ):
        if value is not None:
            if name in overrides:
                raise click.UsageError(f"{option} and --set {name} say the same: give one of them")
            overrides[name] = value
    files = None
    try:
        load = partial(_load, config_file, overrides)
        if secure:
            from .secure import make_secure  # needs much that other brokers do not

            files, settings = make_secure(load({}), listen)
            overrides |= settings
        asyncio.run(_serve(load, brokers, files, stop_with_stdin=stop_with_stdin))
    except (ConfigError, StartupError, StorageError) as error:
        raise CommandError(str(error)) from error


def _load(config_file: str | None, overrides: Mapping[str, str], own: Mapping[str, str]) -> Config:
    return load_config(file=config_file, environ=os.environ, overrides={**overrides, **own})


async def _serve(
    load: Callable[[Mapping[str, str]], Config],
    count: int,
    files: "SecureFiles | None",
    *,
    stop_with_stdin: bool,
) -> None:
    config = load({})
    config.log_warnings(shares_process=count > 1)
    stopping = asyncio.Event()
    with _set_by_signals(stopping):
        if stop_with_stdin:
            _stop_at_end_of_stdin(stopping)
        reason = await _run(config, load, count, files, stopping)
    if reason is not None:
        raise CommandError(f"the broker stopped: {reason}")


async def _run(
    config: Config,
    load: Callable[[Mapping[str, str]], Config],
    count: int,
    files: "SecureFiles | None",
    stopping: asyncio.Event,
) -> str | None:
    """Serve until asked to stop, or until a broker fails: then return the reason."""
    allow_many_files()
    runtime = Runtime.system(syncs=config.odradek_fsync)
    prepare_admin(config, runtime)
    try:
        running = _make(config, load, count, runtime)
        if not await _has_started(running, stopping):
            return None
        try:
            async with serve_admin(config, running, runtime) as admin_url:
                for line in _what_to_say(running, admin_url, files):
                    click.echo(line)
                # Existing objects are permanent: the collector need not scan them while requests
                # wait.
                gc.collect()
                gc.freeze()
                return await _failure_before(stopping, running)
        finally:
            await running.stop()
    finally:
        runtime.close()


async def _has_started(running: "Broker | LocalCluster", stopping: asyncio.Event) -> bool:
    """Start, unless asked to stop meanwhile; returns whether it has started.

    Starting may wait for ZooKeeper and other brokers.
    Raises: StartupError, ConfigError, StorageError.
    """
    starting = asyncio.ensure_future(running.start())
    asked = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((starting, asked), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
        if starting.cancelled():
            return False
    await starting
    return True


def _make(
    config: Config, load: Callable[[Mapping[str, str]], Config], count: int, runtime: Runtime
) -> "Broker | LocalCluster":
    if count == 1:
        return Broker(config, runtime, recovery_bar=_recovery_bar)
    from odradek.broker.local_cluster import LocalCluster

    return LocalCluster(config.data_dir, count, load, runtime, recovery_bar=_recovery_bar)


def _what_to_say(
    running: "Broker | LocalCluster", admin_url: str, files: "SecureFiles | None"
) -> Iterator[str]:
    """The lines that are printed once the brokers serve."""
    yield _ready_line(running)
    if admin_url:
        yield admin_line(admin_url)
    if not isinstance(running, Broker):
        last = running.brokers[running.broker_ids[-1]]
        has_token = bool(last.config.odradek_admin_token)
        yield brokers_line(last.broker_id, admin_url, has_token=has_token)
    if files is not None:
        from .secure import say_files

        yield from say_files(files, _addresses(running))


def _ready_line(running: "Broker | LocalCluster") -> str:
    if isinstance(running, Broker):
        return ready_line([running], running.data_dir)
    return ready_line(list(running.brokers.values()), running.directory)


def _addresses(running: "Broker | LocalCluster") -> str:
    brokers = brokers_of(running).values()
    return ",".join(f"{bracketed(broker.host)}:{broker.port}" for broker in brokers)


async def _failure_before(stopping: asyncio.Event, broker: "Broker | LocalCluster") -> str | None:
    """Wait until asked to stop, or until the broker fails: then return the reason."""
    failed = asyncio.ensure_future(broker.failed())
    asked = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((failed, asked), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if failed.done():
        return failed.result()
    failed.cancel()
    return None


def _recovery_bar(total_bytes: int) -> AbstractContextManager[Callable[[int], None]]:
    from .progress import progress  # imported only if there is something to recover

    return progress("recovering logs (bytes)", total=total_bytes)


@contextmanager
def _set_by_signals(stopping: asyncio.Event) -> Iterator[None]:
    """Set it at the first SIGTERM or SIGINT; the same signal again ends the process at once."""
    loop = asyncio.get_running_loop()

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, end_at_once)
        loop.call_soon_threadsafe(stopping.set)

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_at_end_of_stdin(stopping: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    stdin = sys.stdin.fileno()

    def read() -> None:
        if not os.read(stdin, 4096):
            stopping.set()
            loop.remove_reader(stdin)

    try:
        loop.add_reader(stdin, read)
    except PermissionError:
        raise StartupError(
            "--stop-with-stdin needs a pipe or a terminal as standard input"
        ) from None
