"""`odradek import-zookeeper`: takes over an Apache Kafka broker's directory, from ZooKeeper."""

import click

from odradek.broker.coordination.interface import CoordinationError
from odradek.broker.coordination.plain_tree import topics_of
from odradek.broker.coordination.transfer import changes, check_store, for_odradek
from odradek.broker.coordination.zookeeper import zookeeper_access
from odradek.broker.coordination.zookeeper_tree import zookeeper_tree
from odradek.storage.errors import StorageError

from .commands import command
from .errors import CommandError
from .offline import (
    StoppedBroker,
    data_dir_option,
    dry_run_option,
    new_store_of,
    now_ms,
    show_changes,
    show_warnings,
    stopped_broker,
    zookeeper_option,
)
from .tables import count_of
from .zookeeper_config import zookeeper_config_option, zookeeper_settings


@command("import-zookeeper")
@zookeeper_option
@zookeeper_config_option
@data_dir_option
@dry_run_option
@click.option(
    "--only-this-broker",
    is_flag=True,
    help="Import topics that also have replicas on other brokers, without those replicas.",
)
@click.option("--force", is_flag=True, help="Overwrite a store that has topics.")
def import_zookeeper(
    zookeeper: str,
    zookeeper_config: str | None,
    data_dirs: tuple[str, ...],
    dry_run: bool,
    only_this_broker: bool,
    force: bool,
) -> None:
    """Read a Kafka cluster's nodes in ZooKeeper into the store of a stopped broker.

    Odradek can then be started on the data directory of Apache Kafka (up to 3.9, ZooKeeper mode).
    The store may be new, or contain an earlier state of the same cluster. ZooKeeper is only read.
    """
    try:
        access = zookeeper_access(zookeeper_settings(zookeeper, zookeeper_config))
        with stopped_broker(data_dirs) as broker:
            with zookeeper_tree(zookeeper, access) as source:
                found = source.read()
            nodes, warnings = for_odradek(
                found,
                broker_id=broker.owner.broker_id,
                cluster_id=broker.owner.cluster_id,
                only_this_broker=only_this_broker,
            )
            write_store(broker, nodes, dry_run=dry_run, force=force)
            show_warnings(warnings)
    except (CoordinationError, StorageError) as error:
        raise CommandError(str(error)) from error


def write_store(
    broker: StoppedBroker, nodes: dict[str, bytes], *, dry_run: bool, force: bool
) -> None:
    """Write these nodes to the store, and report the changes.  Raises: CoordinationError."""
    with new_store_of(broker, dry_run=dry_run) as store:
        check_store(store.nodes, nodes, force=force)
        todo = changes(store.nodes, nodes)
        if not dry_run:
            store.apply(todo, wall_ms=now_ms())
    show_changes(todo, broker.store_path, dry_run=dry_run)
    owner = broker.owner
    click.echo(f"cluster {owner.cluster_id}: {count_of(len(topics_of(nodes)), 'topic')}")
    directories = ",".join(broker.directories)
    click.echo(f"next: odradek serve --broker-id {owner.broker_id} --data-dir {directories}")
