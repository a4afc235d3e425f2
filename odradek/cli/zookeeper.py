"""`odradek zookeeper`: shows the znodes of a cluster, in ZooKeeper or in an embedded store."""

import asyncio
import base64
import os
from typing import Final, NamedTuple

import click

from odradek.broker.coordination.interface import CoordinationError, NoNode, Session
from odradek.broker.coordination.journal import SqliteJournal
from odradek.broker.coordination.paths import check_path
from odradek.broker.coordination.plain_tree import is_below
from odradek.broker.coordination.zookeeper import zookeeper_store
from odradek.broker.server import STORE_FILE

from .commands import group
from .errors import CommandError
from .options import json_option
from .tables import show_json
from .zookeeper_config import zookeeper_config_option, zookeeper_settings

AT_ONCE: Final = 500
OF_ZOOKEEPER: Final = "/zookeeper"
LOCAL: Final = "127.0.0.1:2181"


class Node(NamedTuple):
    """A znode as it is shown."""

    path: str
    version: int
    ephemeral: bool
    data: bytes


@group("zookeeper")
def zookeeper() -> None:
    """Show the nodes in ZooKeeper or in an embedded store."""


@zookeeper.command()
@click.argument("path", default="/")
@click.option(
    "--zookeeper",
    "address",
    metavar="HOST:PORT/CHROOT",
    help=f"As in Kafka's zookeeper.connect; by default {LOCAL}.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    help="The embedded store in this directory instead; its broker must be stopped.",
)
@zookeeper_config_option
@json_option
def dump(
    path: str,
    address: str | None,
    data_dir: str | None,
    zookeeper_config: str | None,
    as_json: bool,
) -> None:
    """Print the nodes at and below PATH, sorted.

    Each line has path, version, ephemeral or persistent, and data. Nothing is changed.
    """
    if address is not None and data_dir is not None:
        raise click.UsageError("--zookeeper and --data-dir exclude each other")
    if zookeeper_config is not None and data_dir is not None:
        raise click.UsageError("--zookeeper-config and --data-dir exclude each other")
    try:
        check_path(path)
        nodes = (
            asyncio.run(_read_zookeeper(address or LOCAL, zookeeper_config, path))
            if data_dir is None
            else _read_store(data_dir, path)
        )
    except CoordinationError as error:
        raise CommandError(str(error)) from error
    if not nodes:
        raise CommandError(f"there is no node {path} in {data_dir or address or LOCAL}")
    nodes.sort()
    if as_json:
        show_json([_as_json(node) for node in nodes])
        return
    for node in nodes:
        kind = "ephemeral" if node.ephemeral else "persistent"
        click.echo(f"{node.path}\t{node.version}\t{kind}\t{_as_text(node.data)}".rstrip())


async def _read_zookeeper(address: str, config: str | None, top: str) -> list[Node]:
    settings = zookeeper_settings(address, config)
    store = zookeeper_store(settings, make_chroot=False)
    session = await store.open_session(settings.zookeeper_session_timeout_ms)
    try:
        nodes: list[Node] = []
        level = [top]
        while level:
            below: list[str] = []
            for start in range(0, len(level), AT_ONCE):
                paths = level[start : start + AT_ONCE]
                for node, children in await asyncio.gather(*[_look(session, p) for p in paths]):
                    if node is not None:
                        nodes.append(node)
                        below += children
            level = [path for path in below if path != OF_ZOOKEEPER]
        return nodes
    finally:
        await store.close()


async def _look(session: Session, path: str) -> tuple[Node | None, list[str]]:
    """A node and the paths of its children; None if it does not exist or was just deleted."""
    reads = await asyncio.gather(session.get(path), session.children(path), return_exceptions=True)
    for read in reads:
        if isinstance(read, BaseException) and not isinstance(read, NoNode):
            raise read
    content, names = reads
    if isinstance(content, BaseException) or isinstance(names, BaseException):
        return None, []
    data, stat = content
    node = Node(path, stat.version, stat.ephemeral_owner != 0, data)
    return node, [f"{path.rstrip('/')}/{name}" for name in names]


def _read_store(data_dir: str, top: str) -> list[Node]:
    file = f"{data_dir.rstrip('/')}/{STORE_FILE}"
    if not os.path.exists(file):
        raise CommandError(f"there is no store of Odradek in {data_dir}: {STORE_FILE} is missing")
    journal = SqliteJournal(file)
    try:
        saved = journal.open().nodes
    finally:
        journal.close()
    return [
        Node(path, node.version, node.ephemeral_owner != 0, node.data)
        for path, node in saved
        if is_below(path, (top,)) or top == "/"
    ]


def _as_text(data: bytes) -> str:
    """The data on one line, with unprintable characters escaped."""
    text = data.decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _as_json(node: Node) -> dict[str, object]:
    shown: dict[str, object] = {
        "path": node.path,
        "version": node.version,
        "ephemeral": node.ephemeral,
    }
    try:
        shown["data"] = node.data.decode()
    except UnicodeDecodeError:
        shown["data_base64"] = base64.b64encode(node.data).decode()
    return shown
