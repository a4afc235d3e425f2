"""`odradek transactions explain`: what a transactional id waits for, and what happened to it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from odradek.protocol.messages.k20003_describe_transaction_journal import (
    DescribedTransactionJournal,
    DescribeTransactionJournalRequest,
    DescribeTransactionJournalResponse,
    JournalEntry,
    MissingMarker,
)

from .brokers import TRANSACTION, Brokers, brokers_of, refusal
from .clients import Cluster, cluster_options
from .commands import command
from .completion import complete_transactional_ids
from .durations import duration_text
from .journals import ask_journal
from .log_offsets import NO_LEADER
from .options import json_option
from .tables import NOTHING, count_of, local_time, show_json, show_table

DEAD: Final = "Dead"
ONGOING: Final = "Ongoing"
NAMED_MAX: Final = 10


@command("explain")
@click.argument("name", metavar="TRANSACTIONAL-ID", shell_complete=complete_transactional_ids)
@json_option
@cluster_options
def explain(cluster: Cluster, name: str, as_json: bool) -> None:
    """Show what a transactional id waits for, and what happened to it and why.

    Only Odradek's brokers keep this journal.
    """
    with brokers_of(cluster) as brokers:
        journal = _journal(brokers, name)
    if as_json:
        show_json(_document(journal))
        return
    for line in summary(journal, round(datetime.now(UTC).timestamp() * 1000)):
        click.echo(line)
    if journal.entries:
        click.echo()
        rows = [_row(entry) for entry in journal.entries]
        show_table(("TIME", "EVENT", "CLIENT", "REASON"), rows)


def _journal(brokers: Brokers, name: str) -> DescribedTransactionJournal:
    answer = ask_journal(
        brokers,
        name,
        DescribeTransactionJournalRequest(transactional_ids=[name]),
        DescribeTransactionJournalResponse,
        lambda answer: answer.transactions[0].error_code,
        key_type=TRANSACTION,
        kept_of="transactional ids",
    )
    (journal,) = answer.transactions
    if journal.error_code:
        raise refusal(name, journal.error_code, journal.error_message)
    return journal


def summary(journal: DescribedTransactionJournal, now_ms: int) -> list[str]:
    """Sentences that say how the id is now, and what is waited for."""
    name, state = journal.transactional_id, journal.transaction_state
    if state == DEAD:
        return [f"{name} has expired."]
    producer = f"producer {journal.producer_id}, epoch {journal.producer_epoch}"
    lines = [f"{name} is {state}, with {producer}."]
    if journal.missing_markers:
        lines.append(_missing(journal.missing_markers, journal.partition_count))
    elif journal.pending_state is not None:
        lines.append(f"The record of {journal.pending_state} is not committed yet.")
    elif state == ONGOING:
        lines.append(_open(journal, now_ms))
    else:
        lines.append("No transaction is open.")
    return lines


def _open(journal: DescribedTransactionJournal, now_ms: int) -> str:
    since = duration_text(now_ms - journal.transaction_start_time_ms)
    timeout = duration_text(journal.transaction_timeout_ms)
    where = count_of(journal.partition_count, "partition")
    return (
        f"Its transaction in {where} is open for {since}, and waits for the producer to end it."
        f" It is aborted after {timeout}."
    )


def _missing(missing: Sequence[MissingMarker], partition_count: int) -> str:
    named = ", ".join(_where(marker) for marker in missing[:NAMED_MAX])
    more = f" and {len(missing) - NAMED_MAX} more" if len(missing) > NAMED_MAX else ""
    count = count_of(partition_count, "partition")
    return f"The markers of {len(missing)} of {count} are missing: {named}{more}."


def _where(marker: MissingMarker) -> str:
    has_leader = marker.leader_id != NO_LEADER
    leader = f"leader {marker.leader_id}" if has_leader else "no leader"
    return f"{marker.topic}-{marker.partition} ({leader})"


def _row(entry: JournalEntry) -> list[str]:
    return [local_time(entry.timestamp_ms), entry.event, entry.client or NOTHING, entry.reason]


def _document(journal: DescribedTransactionJournal) -> dict[str, Any]:
    is_dead = journal.transaction_state == DEAD
    started_ms = journal.transaction_start_time_ms
    return {
        "transactional_id": journal.transactional_id,
        "state": journal.transaction_state,
        "pending_state": journal.pending_state,
        "producer_id": None if is_dead else journal.producer_id,
        "producer_epoch": None if is_dead else journal.producer_epoch,
        "timeout_ms": None if is_dead else journal.transaction_timeout_ms,
        "start_time": started_ms if started_ms >= 0 else None,
        "partition_count": journal.partition_count,
        "missing_markers": [
            {
                "topic": marker.topic,
                "partition": marker.partition,
                "leader": None if marker.leader_id == NO_LEADER else marker.leader_id,
            }
            for marker in journal.missing_markers
        ],
        "entries": [
            {
                "timestamp": entry.timestamp_ms,
                "event": entry.event,
                "client": entry.client or None,
                "reason": entry.reason,
            }
            for entry in journal.entries
        ],
    }
