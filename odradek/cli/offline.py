"""The files of a stopped broker, for the commands that move it to and from Kafka."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import click

from odradek.broker.coordination.interface import Create, Delete, Set
from odradek.broker.coordination.plain_tree import Change
from odradek.broker.coordination.stored_tree import StoredTree
from odradek.broker.server import STORE_FILE
from odradek.storage.directory.meta_properties import (
    META_PROPERTIES,
    MetaProperties,
    read_meta_properties,
)
from odradek.storage.files import RealFileSystem
from odradek.storage.log.checkpoint import CLEAN_SHUTDOWN

from .errors import CommandError

DONE: Final = {Create: "created", Set: "changed", Delete: "deleted"}

data_dir_option = click.option(
    "--data-dir",
    "data_dirs",
    metavar="DIR[,DIR]",
    required=True,
    callback=lambda ctx, param, text: _parse_directories(ctx, param, text),
    help="The broker's data directory, or all of its directories as in log.dirs.",
)
zookeeper_option = click.option(
    "--zookeeper",
    metavar="HOST:PORT/CHROOT",
    required=True,
    help="As in Kafka's zookeeper.connect.",
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Say what would be done, but do nothing."
)


class StoppedBroker(NamedTuple):
    """The directories of a broker, locked; its embedded store is in the first one."""

    directories: tuple[str, ...]
    owner: MetaProperties
    files: RealFileSystem

    @property
    def store_path(self) -> str:
        """The path of the embedded store, which need not exist."""
        return f"{self.directories[0]}/{STORE_FILE}"

    @property
    def stopped_cleanly(self) -> bool:
        """Whether the logs need no recovery at the next start."""
        return all(self.files.exists(f"{path}/{CLEAN_SHUTDOWN}") for path in self.directories)


@contextmanager
def stopped_broker(directories: Sequence[str]) -> Iterator[StoppedBroker]:
    """Lock the directories, so that no broker starts on them meanwhile.

    Raises: CommandError, StorageError (in use, of a KRaft broker, unreadable).
    """
    files = RealFileSystem()
    owners: dict[MetaProperties, str] = {}
    with ExitStack() as stack:
        for path in directories:
            if not os.path.isdir(path):
                raise CommandError(f"there is no directory {path}")
            stack.callback(files.lock(f"{path}/.lock").release)
            owner = read_meta_properties(files, f"{path}/{META_PROPERTIES}")
            if owner is None:
                raise CommandError(f"{path} is no data directory of a broker: no {META_PROPERTIES}")
            owners.setdefault(owner, path)
        if len(owners) > 1:
            raise CommandError(f"{' and '.join(owners.values())} belong to different brokers")
        with_store_first = sorted(
            directories, key=lambda path: not files.exists(f"{path}/{STORE_FILE}")
        )
        yield StoppedBroker(tuple(with_store_first), next(iter(owners)), files)


@contextmanager
def store_of(broker: StoppedBroker) -> Iterator[StoredTree]:
    """The store of a broker, which must have one.  Raises: CommandError, StoreError."""
    if not broker.files.exists(broker.store_path):
        raise CommandError(
            f"there is no store of Odradek in {' or '.join(broker.directories)}: "
            f"{STORE_FILE} is missing"
        )
    with StoredTree(broker.store_path) as tree:
        yield tree


@contextmanager
def new_store_of(broker: StoppedBroker, *, dry_run: bool) -> Iterator[StoredTree]:
    """The store of a broker, created if missing: in a dry run, in a temporary directory.

    Raises: StoreError.
    """
    with ExitStack() as stack:
        path = broker.store_path
        if dry_run and not broker.files.exists(path):
            path = f"{stack.enter_context(TemporaryDirectory())}/{STORE_FILE}"
        yield stack.enter_context(StoredTree(path))


def now_ms() -> int:
    """The current time, for the timestamps of nodes."""
    return time.time_ns() // 1_000_000


def show_changes(changes: Sequence[Change], where: str, *, dry_run: bool) -> None:
    """Print how many changes there are, and in a dry run also each of them."""
    counts = dict.fromkeys(DONE, 0)
    for change in changes:
        counts[type(change)] += 1
        if dry_run:
            click.echo(f"{type(change).__name__.lower()}\t{change.path}")
    done = ", ".join(f"{count} {DONE[kind]}" for kind, count in counts.items() if count)
    end = " (not done: dry run)" if dry_run else ""
    click.echo(f"{where}: {f'nodes: {done}{end}' if done else 'nothing to change'}")


def show_warnings(warnings: Sequence[str]) -> None:
    """Print warnings to stderr, one per line."""
    for warning in warnings:
        click.echo(f"Warning: {warning}", err=True)


def _parse_directories(ctx: click.Context, param: click.Parameter, text: str) -> tuple[str, ...]:
    paths = tuple(path.strip().rstrip("/") or "/" for path in text.split(","))
    if not all(path.strip() for path in text.split(",")) or len(set(paths)) != len(paths):
        raise click.BadParameter(f"{text!r} is not a list of directories", ctx, param)
    return paths
