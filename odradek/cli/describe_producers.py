"""`odradek transactions describe-producers`: who has written to partitions."""

from collections.abc import Sequence
from typing import Any

import click

from odradek.protocol.messages.k61_describe_producers import ProducerState

from . import transaction_requests as requests
from .brokers import brokers_of
from .clients import Cluster, cluster_options
from .commands import command
from .completion import complete_topics
from .group_offsets import Partition
from .log_offsets import existing_topic
from .options import json_option, partitions_option
from .positions import choose_partitions
from .tables import local_time, show_json, show_rows

COLUMNS = (
    "partition",
    "producer_id",
    "epoch",
    "coordinator_epoch",
    "last_sequence",
    "last_timestamp",
    "txn_start_offset",
)
Document = dict[str, Any]


@command("describe-producers")
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@partitions_option
@click.option(
    "--broker",
    type=click.IntRange(0),
    metavar="ID",
    help="Ask this broker about its replicas. Default: ask the leaders.",
)
@json_option
@cluster_options
def describe_producers(
    cluster: Cluster,
    topic: str,
    partitions: tuple[int, ...],
    broker: int | None,
    as_json: bool,
) -> None:
    """Show the producers of partitions and their open transactions."""
    with brokers_of(cluster) as brokers:
        leaders = existing_topic(brokers, topic).leaders
        broker_of = {
            Partition(topic, number): leaders[number] if broker is None else broker
            for number in choose_partitions(topic, leaders, partitions)
        }
        described = requests.describe_producers(brokers, broker_of)
    documents = [
        _document(where, producer)
        for where, partition in described.items()
        for producer in partition.active_producers
    ]
    if as_json:
        show_json(documents)
    else:
        _show(documents)
    requests.refuse_undescribed(described, "described")


def _document(where: Partition, producer: ProducerState) -> Document:
    start_offset = producer.current_txn_start_offset
    return {
        **where._asdict(),
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "txn_start_offset": None if start_offset < 0 else start_offset,
    }


def _show(documents: Sequence[Document]) -> None:
    rows = [
        {
            **document,
            "epoch": document["producer_epoch"],
            "last_timestamp": local_time(document["last_timestamp"]),
        }
        for document in documents
    ]
    show_rows(COLUMNS, rows)
