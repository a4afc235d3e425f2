"""`odradek transactions`: list, describe, explain, find-hanging, abort, describe-producers."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from odradek.protocol.messages.k65_describe_transactions import TransactionState

from .abort_transaction import abort
from .brokers import TRANSACTION, BrokerNode, brokers_of
from .clients import Cluster, cluster_options
from .commands import group
from .completion import complete_transactional_ids
from .describe_groups import assignment_text, coordinator_document, coordinator_text
from .describe_producers import describe_producers
from .durations import duration_text, parse_duration_ms
from .errors import CommandError
from .explain_transaction import explain
from .find_hanging import find_hanging
from .options import json_option
from .tables import NOTHING, local_time, show_json, show_table
from .transaction_requests import (
    describe_transaction,
    list_transactions,
)

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
)
Document = dict[str, Any]


@group()
def transactions() -> None:
    """List, describe, explain transactions of any Kafka cluster, abort hanging ones."""


transactions.add_command(explain)
transactions.add_command(find_hanging)
transactions.add_command(abort)
transactions.add_command(describe_producers)


@transactions.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only ids in this state; may be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=click.IntRange(0),
    multiple=True,
    help="Only the id of this producer; may be repeated.",
)
@click.option(
    "--running-longer-than",
    metavar="DURATION",
    callback=parse_duration_ms,
    help="Only transactions that began longer ago: 15m, 3h, 2d, or ISO as in P2DT12H.",
)
@click.option("-q", "--quiet", is_flag=True, help="Ids only, one a line.")
@json_option
@cluster_options
def list_ids(
    cluster: Cluster,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    running_longer_than: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """List the transactional ids of all coordinators."""
    with brokers_of(cluster) as brokers:
        found = list_transactions(
            brokers,
            states=states,
            producer_ids=producer_ids,
            running_longer_than_ms=running_longer_than,
        )
    if quiet:
        for listed in found:
            click.echo(listed.transactional_id)
    elif as_json:
        show_json(
            [{**t._asdict(), "coordinator": coordinator_document(t.coordinator)} for t in found]
        )
    else:
        columns = ("TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE")
        rows = [
            [name, coordinator_text(coordinator_document(node)), producer_id, state]
            for name, node, producer_id, state in found
        ]
        show_table(columns, rows)


@transactions.command("describe")
@click.argument(
    "names",
    metavar="TRANSACTIONAL-ID…",
    nargs=-1,
    required=True,
    shell_complete=complete_transactional_ids,
)
@json_option
@cluster_options
def describe(cluster: Cluster, names: tuple[str, ...], as_json: bool) -> None:
    """Show the state of transactional ids."""
    documents, missing = [], []
    with brokers_of(cluster) as brokers:
        for name in dict.fromkeys(names):
            state = describe_transaction(brokers, name)
            if state is None:
                missing.append(name)
            else:
                documents.append(_document(state, brokers.coordinator(name, TRANSACTION)))
    if as_json:
        show_json(documents)
    elif documents:
        _show(documents)
    if missing:
        raise CommandError(
            f"there is no transactional id {', '.join(missing)} (TRANSACTIONAL_ID_NOT_FOUND)"
        )


def _document(state: TransactionState, coordinator: BrokerNode) -> Document:
    started_ms = state.transaction_start_time_ms
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    return {
        "transactional_id": state.transactional_id,
        "coordinator": coordinator_document(coordinator),
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "state": state.transaction_state,
        "timeout_ms": state.transaction_timeout_ms,
        "start_time": started_ms if started_ms >= 0 else None,
        "duration_ms": max(now_ms - started_ms, 0) if started_ms >= 0 else None,
        "partitions": {topic.topic: sorted(topic.partitions) for topic in state.topics},
    }


def _show(documents: Sequence[Document]) -> None:
    rows = [
        [
            d["transactional_id"],
            coordinator_text(d["coordinator"]),
            d["producer_id"],
            d["producer_epoch"],
            d["state"],
            duration_text(d["timeout_ms"]),
            NOTHING if d["start_time"] is None else local_time(d["start_time"]),
            NOTHING if d["duration_ms"] is None else duration_text(d["duration_ms"]),
            assignment_text(d["partitions"]) or NOTHING,
        ]
        for d in documents
    ]
    columns = ("TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "EPOCH", "STATE", "TIMEOUT")
    show_table((*columns, "STARTED", "DURATION", "PARTITIONS"), rows)
