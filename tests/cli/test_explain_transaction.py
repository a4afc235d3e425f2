"""The sentences above the journal of a transactional id."""

from typing import Any

from odradek.cli.explain_transaction import summary
from odradek.protocol.messages.k20003_describe_transaction_journal import (
    DescribedTransactionJournal,
    MissingMarker,
)


def told(state: str, **more: Any) -> list[str]:
    journal = DescribedTransactionJournal(
        transactional_id="billing-1",
        transaction_state=state,
        producer_id=7,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        **more,
    )
    return summary(journal, 125_000)


def test_an_open_transaction_waits_for_its_producer() -> None:
    assert told("Ongoing", transaction_start_time_ms=100_000, partition_count=2) == [
        "billing-1 is Ongoing, with producer 7, epoch 3.",
        "Its transaction in 2 partitions is open for 25s, and waits for the producer to end it."
        " It is aborted after 1m0s.",
    ]


def test_missing_markers_are_named_with_their_leaders() -> None:
    missing = [MissingMarker(topic="t", partition=n, leader_id=n - 1) for n in range(2)]
    pending = {"pending_state": "CompleteCommit", "partition_count": 3}
    assert told("PrepareCommit", missing_markers=missing, **pending)[1:] == [
        "The markers of 2 of 3 partitions are missing: t-0 (no leader), t-1 (leader 0)."
    ]
    many = [MissingMarker(topic="t", partition=n, leader_id=0) for n in range(12)]
    (line,) = told("PrepareCommit", missing_markers=many, **pending)[1:]
    assert line.endswith(" t-9 (leader 0) and 2 more.")


def test_a_record_that_is_not_committed() -> None:
    assert told("Empty", pending_state="Ongoing")[1:] == [
        "The record of Ongoing is not committed yet."
    ]


def test_nothing_is_waited_for() -> None:
    assert told("CompleteAbort")[1:] == ["No transaction is open."]
    assert told("Dead") == ["billing-1 has expired."]
