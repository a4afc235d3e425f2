"""`odradek transactions abort`: ends a hanging transaction in one partition."""

from typing import Final, NamedTuple

import click

from .brokers import Brokers, brokers_of
from .clients import Cluster, cluster_options
from .commands import command
from .completion import complete_topics
from .errors import CommandError
from .group_offsets import Partition
from .log_offsets import chosen_leaders, existing_topic
from .options import PARTITION_LAST
from .transaction_requests import (
    describe_producers,
    open_transactions,
    refuse_undescribed,
    write_abort_marker,
)

EPOCH_LAST: Final = (1 << 15) - 1
NO_EPOCH: Final = -1


class Producer(NamedTuple):
    """Whose transaction to abort."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


@command("abort")
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(0, PARTITION_LAST),
    required=True,
    help="The partition; abort each on its own.",
)
@click.option(
    "--start-offset",
    type=click.IntRange(0),
    help="The first offset of the transaction, as find-hanging shows it.",
)
@click.option(
    "--producer-id",
    type=click.IntRange(0),
    help="The producer, for brokers before Kafka 3.0, which cannot find it by the offset.",
)
@click.option("--producer-epoch", type=click.IntRange(0, EPOCH_LAST), help="Its epoch.")
@click.option(
    "--coordinator-epoch",
    type=click.IntRange(NO_EPOCH, PARTITION_LAST),
    help="The epoch in the producer's last marker in the log; -1 without a marker.",
)
@cluster_options
def abort(
    cluster: Cluster,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> None:
    """Abort a transaction in one partition.

    Abort hanging transactions only: others may still be committed in other partitions.
    """
    producer = _given(producer_id, producer_epoch, coordinator_epoch)
    if (producer is None) == (start_offset is None):
        raise click.UsageError("give --start-offset, or the producer")
    where = Partition(topic, partition)
    with brokers_of(cluster) as brokers:
        leader = chosen_leaders(topic, existing_topic(brokers, topic), [partition])[partition]
        if start_offset is not None:
            producer = _producer(brokers, where, leader, start_offset)
        assert producer is not None
        write_abort_marker(brokers, where, leader, **producer._asdict())
    click.echo(f"aborted the transaction of producer {producer.producer_id} in {where}", err=True)


def _given(
    producer_id: int | None, producer_epoch: int | None, coordinator_epoch: int | None
) -> Producer | None:
    """The producer that options name, if they do."""
    if producer_id is None and producer_epoch is None and coordinator_epoch is None:
        return None
    if producer_id is None or producer_epoch is None or coordinator_epoch is None:
        raise click.UsageError(
            "--producer-id, --producer-epoch and --coordinator-epoch go together"
        )
    return Producer(producer_id, producer_epoch, coordinator_epoch)


def _producer(brokers: Brokers, where: Partition, leader: int, start_offset: int) -> Producer:
    """Whose transaction starts at an offset.  Raises: CommandError."""
    described = describe_producers(brokers, {where: leader})
    refuse_undescribed(described, "described")
    for t in open_transactions(described):
        if t.start_offset == start_offset:
            return Producer(t.producer_id, t.producer_epoch, t.coordinator_epoch)
    raise CommandError(f"no open transaction of {where} starts at offset {start_offset}")
