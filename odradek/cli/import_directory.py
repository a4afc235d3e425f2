"""`odradek import-directory`: rebuilds a lost store from partition directories."""

import secrets
import struct
from collections.abc import Callable
from typing import Final

import click

from odradek.broker.coordination.interface import CoordinationError
from odradek.broker.coordination.rebuilt_tree import FoundPartition, rebuilt
from odradek.broker.core.topic_names import TRANSACTION_STATE_TOPIC
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.records import iter_records
from odradek.storage.directory.survey import (
    PartitionDirectory,
    batch_headers,
    batches,
    last_leader_epoch,
    last_producer_id,
    partition_directories,
    segment_files,
    topic_id_of,
)
from odradek.storage.errors import StorageError

from .commands import command
from .errors import CommandError
from .import_zookeeper import write_store
from .offline import (
    StoppedBroker,
    data_dir_option,
    dry_run_option,
    show_warnings,
    stopped_broker,
)
from .progress import progress
from .tables import NOTHING, show_table

RECORDS_BYTES_MAX: Final = 1 << 28
VERSION_AND_PRODUCER_ID: Final = struct.Struct(">hq")


@command("import-directory")
@data_dir_option
@dry_run_option
@click.option(
    "--create-missing",
    is_flag=True,
    help="Let missing partitions below the highest existing one begin empty.",
)
@click.option("--force", is_flag=True, help="Overwrite a store that has topics.")
def import_directory(
    data_dirs: tuple[str, ...], dry_run: bool, create_missing: bool, force: bool
) -> None:
    """Rebuild the store of a stopped broker from its partition directories.

    For a directory of Odradek or Kafka whose store or ZooKeeper is lost. Settings, quotas, users
    and ACLs are lost with it; topics get settings with which no record is deleted.
    """
    try:
        with stopped_broker(data_dirs) as broker:
            found = _find(broker)
            nodes, warnings = rebuilt(
                found,
                broker_id=broker.owner.broker_id,
                cluster_id=broker.owner.cluster_id,
                create_missing=create_missing,
                randbytes=secrets.token_bytes,
            )
            _show_found(found)
            write_store(broker, nodes, dry_run=dry_run, force=force)
            show_warnings(warnings)
    except (CoordinationError, StorageError) as error:
        raise CommandError(str(error)) from error


def _find(broker: StoppedBroker) -> list[FoundPartition]:
    """The partitions in the broker's directories.  Raises: StorageError."""
    directories: list[PartitionDirectory] = []
    for path in broker.directories:
        found, others = partition_directories(broker.files, path)
        directories += found
        show_warnings([f"{path}/{name} is no partition and is left alone" for name in others])
    files = broker.files
    total = sum(info.size_bytes for d in directories for info in segment_files(files, d.path))
    with progress("bytes of logs", total=total) as advance:
        return [_look_at(broker, directory, advance) for directory in directories]


def _look_at(
    broker: StoppedBroker, directory: PartitionDirectory, advance: Callable[[int], None]
) -> FoundPartition:
    """Survey the directory of one partition.

    Producer snapshots drop producers that have long been silent, so every batch header is read.
    """
    files, path = broker.files, directory.path
    leader_epoch, producer_id = last_leader_epoch(files, path), last_producer_id(files, path)
    for info in segment_files(files, path):
        for header in batch_headers(files, path, info):
            leader_epoch = max(leader_epoch, header.partition_leader_epoch)
            producer_id = max(producer_id, header.producer_id)
        advance(info.size_bytes)
    if directory.topic == TRANSACTION_STATE_TOPIC:
        producer_id = max(producer_id, _last_transactional_id(broker, path))
    return FoundPartition(
        directory.topic,
        directory.partition,
        path,
        topic_id_of(files, path),
        leader_epoch,
        producer_id,
    )


def _last_transactional_id(broker: StoppedBroker, path: str) -> int:
    """The highest producer id that was given to a transactional id."""
    highest = -1
    for header, batch in batches(broker.files, path):
        if header.is_control:
            continue
        try:
            for record in iter_records(batch, header, size_bytes_max=RECORDS_BYTES_MAX):
                if record.value is not None:
                    _, producer_id = VERSION_AND_PRODUCER_ID.unpack_from(record.value)
                    highest = max(highest, producer_id)
        except (MalformedMessage, struct.error):
            continue
    return highest


def _show_found(found: list[FoundPartition]) -> None:
    show_table(
        ("TOPIC", "PARTITION", "LEADER EPOCH", "DIRECTORY"),
        [
            (p.topic, p.partition, NOTHING if p.leader_epoch < 0 else p.leader_epoch, p.directory)
            for p in found
        ],
    )
