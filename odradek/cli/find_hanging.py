"""`odradek transactions find-hanging`: transactions that nobody will ever end.

A transaction hangs if a partition contains its records, but no coordinator knows that it is in
progress there.  Consumers with read_committed stop at its first record, and so does compaction.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import click

from .brokers import Brokers, brokers_of
from .clients import Cluster, cluster_options
from .cluster_view import chosen_partitions, parse_partitions, view
from .commands import command
from .durations import duration_text, parse_duration_ms
from .errors import CommandError
from .group_offsets import Partition
from .log_offsets import NO_LEADER, topic_leaders
from .options import json_option
from .tables import count_of, local_time, show_json, show_table
from .transaction_requests import (
    OpenTransaction,
    describe_producers,
    ongoing,
    open_transactions,
    refuse_undescribed,
)

STATE_TOPIC: Final = "__transaction_state"


@command("find-hanging")
@click.option(
    "--topic",
    "asked",
    metavar="TOPIC[:PARTITION]",
    multiple=True,
    callback=parse_partitions,
    help="Where to look; may be repeated. Default: in all partitions.",
)
@click.option(
    "--broker",
    type=click.IntRange(0),
    metavar="ID",
    help="Ask this broker about its replicas. Default: ask the leaders.",
)
@click.option(
    "--max-timeout",
    metavar="DURATION",
    default="15m",
    show_default=True,
    callback=parse_duration_ms,
    help="Leave out transactions with a record in this time, the longest timeout that producers may"
    " have (transaction.max.timeout.ms).",
)
@json_option
@cluster_options
def find_hanging(
    cluster: Cluster,
    asked: Sequence[tuple[str, int | None]],
    broker: int | None,
    max_timeout: int,
    as_json: bool,
) -> None:
    """Find open transactions that no coordinator knows."""
    with brokers_of(cluster) as brokers:
        broker_of = _places(brokers, asked, broker)
        described = describe_producers(brokers, broker_of)
        now_ms = round(datetime.now(UTC).timestamp() * 1000)
        idle = [t for t in open_transactions(described) if now_ms - t.last_timestamp > max_timeout]
        hanging = without_coordinator(brokers, broker_of, idle)
    if as_json:
        show_json([{**t._asdict(), "idle_ms": now_ms - t.last_timestamp} for t in hanging])
    elif hanging:
        _show(hanging, now_ms)
    else:
        click.echo(f"no transaction hangs in {count_of(len(broker_of), 'partition')}", err=True)
    refuse_undescribed(described, "searched")


def without_coordinator(
    brokers: Brokers, broker_of: Mapping[Partition, int], idle: Sequence[OpenTransaction]
) -> list[OpenTransaction]:
    """Those of open transactions that no coordinator knows.  Raises: CommandError."""
    if not idle:
        return []
    _refuse_unknown_states(brokers)
    known = ongoing(brokers, {t.producer_id for t in idle})
    unknown = [t for t in idle if (t.producer_id, t.where) not in known]
    # A coordinator does not know one either that has ended since the partition was asked.
    again = describe_producers(brokers, {t.where: broker_of[t.where] for t in unknown})
    still_open = set(open_transactions(again))
    return [t for t in unknown if t in still_open]


def _places(
    brokers: Brokers, asked: Sequence[tuple[str, int | None]], broker: int | None
) -> dict[Partition, int]:
    """The partitions to search, and the broker to ask for each.  Raises: CommandError."""
    found = view(brokers, [topic for topic, _ in asked] or None)
    if broker is not None and broker not in {node.node_id for node in found.brokers}:
        raise CommandError(f"there is no broker {broker}")
    return {
        Partition(*p.key): p.leader if broker is None else broker
        for p in chosen_partitions(found, asked)
        if broker is None or broker in p.replicas
    }


def _refuse_unknown_states(brokers: Brokers) -> None:
    """Raise CommandError if the coordinator of some transactions is down: they may not hang."""
    states = topic_leaders(brokers, [STATE_TOPIC])[STATE_TOPIC]
    for partition, leader in states.leaders.items():
        if leader == NO_LEADER:
            raise CommandError(
                f"{STATE_TOPIC}-{partition} has no leader, so it is not known which transactions"
                " are in progress"
            )


def _show(hanging: Sequence[OpenTransaction], now_ms: int) -> None:
    columns = ["TOPIC", "PARTITION", "PRODUCER-ID", "EPOCH", "COORDINATOR-EPOCH", "START-OFFSET"]
    rows = [
        [*t[:-1], local_time(t.last_timestamp), duration_text(now_ms - t.last_timestamp)]
        for t in hanging
    ]
    show_table([*columns, "LAST-TIMESTAMP", "IDLE"], rows)
    first = hanging[0]
    click.echo(
        f"to abort the first: odradek transactions abort {first.topic} -p {first.partition}"
        f" --start-offset {first.start_offset}",
        err=True,
    )
