"""`odradek export-zookeeper`: writes a broker's store to ZooKeeper, for Apache Kafka."""

from collections.abc import Iterator

import click

from odradek.broker.coordination.interface import CoordinationError
from odradek.broker.coordination.plain_tree import named, topics_of
from odradek.broker.coordination.transfer import changes, check_target, for_kafka
from odradek.broker.coordination.zookeeper import zookeeper_access
from odradek.broker.coordination.zookeeper_tree import zookeeper_tree
from odradek.broker.core.topic_names import GROUP_OFFSETS_TOPIC
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.group_records import decode_record
from odradek.protocol.group_records.consumer import ConsumerGroupMetadataKey
from odradek.protocol.records import iter_records
from odradek.storage.directory.survey import batches, partition_directories
from odradek.storage.errors import StorageError

from .commands import command
from .errors import CommandError
from .offline import (
    StoppedBroker,
    data_dir_option,
    dry_run_option,
    show_changes,
    show_warnings,
    stopped_broker,
    store_of,
    zookeeper_option,
)
from .progress import progress
from .tables import count_of
from .zookeeper_config import zookeeper_config_option, zookeeper_settings

RECORDS_BYTES_MAX = 1 << 28


@command("export-zookeeper")
@data_dir_option
@zookeeper_option
@zookeeper_config_option
@dry_run_option
@click.option("--force", is_flag=True, help="Overwrite a later state of this cluster.")
def export_zookeeper(
    data_dirs: tuple[str, ...],
    zookeeper: str,
    zookeeper_config: str | None,
    dry_run: bool,
    force: bool,
) -> None:
    """Write a stopped broker's store to ZooKeeper, for Apache Kafka up to 3.9.

    Kafka can then be started on the data directory. ZooKeeper may be empty at this path, or contain
    an earlier state of the same cluster. The data directory is only read.
    """
    try:
        access = zookeeper_access(zookeeper_settings(zookeeper, zookeeper_config))
        with stopped_broker(data_dirs) as broker, store_of(broker) as store:
            nodes, warnings = for_kafka(store.nodes)
            warnings += _left_out_groups(broker)
            with zookeeper_tree(zookeeper, access) as target:
                there = target.read()
                check_target(there, nodes, force=force)
                todo = changes(there, nodes)
                if not dry_run:
                    with progress("nodes", total=len(todo)) as advance:
                        target.apply(todo, advance)
            show_warnings(warnings)
            show_changes(todo, zookeeper, dry_run=dry_run)
            _show_next_steps(broker, zookeeper, len(topics_of(nodes)))
    except (CoordinationError, StorageError) as error:
        raise CommandError(str(error)) from error


def _show_next_steps(broker: StoppedBroker, zookeeper: str, topic_count: int) -> None:
    how = "a clean stop" if broker.stopped_cleanly else "a crash, so that Kafka will recover logs"
    click.echo(f"cluster {broker.owner.cluster_id}: {count_of(topic_count, 'topic')}, after {how}")
    click.echo("server.properties of Kafka needs:")
    click.echo(f"broker.id={broker.owner.broker_id}")
    click.echo(f"log.dirs={','.join(broker.directories)}")
    click.echo(f"zookeeper.connect={zookeeper}")
    click.echo("before Odradek starts here again, once Kafka has: odradek import-zookeeper")


def _left_out_groups(broker: StoppedBroker) -> list[str]:
    groups = sorted(_consumer_groups(broker))
    if not groups:
        return []
    return [
        "groups of the consumer protocol (KIP-848) are left out, Kafka 3.9 has none in ZooKeeper "
        "mode: it skips their records but keeps their committed offsets; members must come back "
        f"with group.protocol=classic: {named(groups)}"
    ]


def _consumer_groups(broker: StoppedBroker) -> set[str]:
    """The groups that are consumer groups according to their last record in the log."""
    groups: set[str] = set()
    for path in broker.directories:
        for found in partition_directories(broker.files, path)[0]:
            if found.topic != GROUP_OFFSETS_TOPIC:
                continue
            for group_id, is_there in _consumer_group_records(broker, found.path):
                (groups.add if is_there else groups.discard)(group_id)
    return groups


def _consumer_group_records(broker: StoppedBroker, directory: str) -> Iterator[tuple[str, bool]]:
    for header, batch in batches(broker.files, directory):
        if header.is_control:
            continue
        try:
            for record in iter_records(batch, header, size_bytes_max=RECORDS_BYTES_MAX):
                decoded = decode_record(
                    bytes(record.key or b""),
                    None if record.value is None else bytes(record.value),
                )
                if decoded is not None and isinstance(decoded.key, ConsumerGroupMetadataKey):
                    yield decoded.key.group_id, decoded.value is not None
        except MalformedMessage:
            continue  # Kafka cannot read such a group either
