"""What the journal of a transactional id tells, when, and how much of it is kept."""

from typing import Final

import pytest

from odradek.broker.core.effects import Caller, Producer
from odradek.broker.core.journal import JournalEntry
from odradek.broker.core.transactions.journals import ENTRIES_MAX, Journals
from odradek.broker.core.transactions.requests import EndTransaction
from odradek.broker.core.transactions.states import TransactionState
from odradek.protocol.errors import ErrorCode

from .running import ID, TIMEOUT_MS, WALL_MS, A, B, Running, Waiting
from .test_requests import OWNER, at
from .test_time import CHECK_MS, HOUR_MS, WEEK_MS

CLIENT: Final = "c at 127.0.0.1"


def told(run: Running, since: int = 0) -> list[str]:
    """The events from one on: when, what, why, and by whom if a client asked."""
    return [
        f"{entry.wall_ms - WALL_MS} {entry.event}: {entry.reason}"
        + ("" if entry.who == CLIENT else f" [{entry.who}]")
        for entry in entries(run)[since:]
    ]


def entries(run: Running, key: str = ID) -> list[JournalEntry]:
    return run.shard.entries(key)


def test_a_transaction_from_its_producer_to_its_last_marker() -> None:
    run = Running()
    producer = run.init().got
    run.pass_time(1_000)
    run.add(producer, A)
    run.pass_time(20)
    run.add(producer, B, ("u", 7))
    run.pass_time(30)
    run.end(producer)
    run.pass_time(5)
    run.mark(A, B)
    run.pass_time(7)
    run.mark(("u", 7))
    assert told(run) == [
        "0 initialized: producer 1000, epoch 0, timeout 60000 ms",
        "1000 began: with t-0",
        "1020 added: t-1 and 1 more: now 3 partitions",
        "1050 commit: 3 partitions, open for 50 ms",
        "1062 committed: markers in 3 partitions, 12 ms after the decision []",
    ]


def test_an_event_is_told_once_its_record_is_committed() -> None:
    run = Running()
    run.holds = True
    run.init()
    assert entries(run) == []
    run.pass_time(9)
    run.commit()
    assert [entry.wall_ms for entry in entries(run)] == [WALL_MS + 9]


def test_a_newer_producer_fences_the_older_one_and_aborts_its_transaction() -> None:
    run = Running()
    run.add(run.init().got, A, B)
    run.init()
    run.mark()
    run.init()
    run.init()
    assert told(run, 1) == [
        "0 began: with t-0 and 1 more",
        "0 fenced: producer 1000, epoch 0; its transaction in 2 partitions is aborted",
        "0 aborted: markers in 2 partitions, 0 ms after the decision []",
        "0 initialized: producer 1000, epoch 2, timeout 60000 ms; producer 1000, epoch 1 is fenced",
        "0 initialized: producer 1000, epoch 3, timeout 60000 ms; producer 1000, epoch 2 is fenced",
    ]


def test_a_producer_that_asks_again_fences_nobody() -> None:
    run = at(TransactionState.EMPTY)
    producer = run.init(OWNER).got
    assert run.init(OWNER).got == producer
    assert [entry.reason.partition("; ")[2] for entry in entries(run)[2:]] == [""]


def test_a_transaction_that_takes_too_long() -> None:
    run = Running()
    run.add(run.init().got, A)
    run.pass_time(TIMEOUT_MS + CHECK_MS)
    assert told(run, 2) == [
        "70000 timed-out: open for 70000 ms, its timeout is 60000 ms;"
        " 1 partition aborted, producer 1000, epoch 0 fenced []"
    ]


def test_the_wall_clock_is_set_back() -> None:
    run = Running()
    producer = run.init().got
    run.add(producer, A)
    run.pass_time(0, wall_ms=-5_000)
    run.end(producer, commits=False)
    run.pass_time(0, wall_ms=-5_000)
    run.mark()
    assert told(run, 2) == [
        "-5000 abort: 1 partition, open for 0 ms",
        "-10000 aborted: markers in 1 partition, 0 ms after the decision []",
    ]


def test_refusals_name_the_producer_and_the_client() -> None:
    run = at(TransactionState.ONGOING)
    zombie, stranger = Producer(7, 2), Producer(8, 3)
    run.add(zombie, A, B)
    run.end(zombie)
    run.end(zombie, commits=False)
    run.init(stranger)
    run.end(OWNER)
    run.init()
    assert [text for text in told(run) if "refused" in text] == [
        "0 refused: 2 partitions to add, as producer 7, epoch 2: PRODUCER_FENCED",
        "0 refused: commit as producer 7, epoch 2: PRODUCER_FENCED",
        "0 refused: abort as producer 7, epoch 2: PRODUCER_FENCED",
        "0 refused: InitProducerId as producer 8, epoch 3: PRODUCER_FENCED",
        "0 refused: InitProducerId: CONCURRENT_TRANSACTIONS",
    ]


def test_a_client_that_retries_is_noted_once() -> None:
    run = at(TransactionState.ONGOING)
    run.end(OWNER)
    for _ in range(100):
        run.pass_time(1)
        run.init()
    assert told(run, 2) == ["1 refused: InitProducerId: CONCURRENT_TRANSACTIONS"]


def test_nobody_writes_into_the_journal_of_an_id_that_does_not_exist() -> None:
    run = Running()
    run.add(OWNER, A)
    run.end(OWNER)
    run.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    run.init()
    run.refuse = ErrorCode.NONE
    run.holds = True
    run.init()
    run.init()
    assert entries(run) == []
    assert len(run.journals) == 0


def test_a_record_that_is_refused_again_and_again_is_noted_once() -> None:
    run = at(TransactionState.ONGOING)
    run.end(OWNER)
    run.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    run.mark()
    for _ in range(5):
        run.pass_time(100)
    run.refuse = ErrorCode.NONE
    run.pass_time(100)
    assert told(run, 2) == [
        "0 not-stored: the record of CompleteCommit: NOT_ENOUGH_REPLICAS []",
        "600 committed: markers in 1 partition, 600 ms after the decision []",
    ]


@pytest.mark.parametrize("commits", [False, True])
def test_the_next_coordinator_begins_a_journal(commits: bool) -> None:
    run = at(TransactionState.ONGOING)
    run.end(OWNER, commits=commits)
    run.pass_time(50)
    run.lose()
    assert told(run) == ["50 loaded: this broker has read the log; it knows no earlier events []"]
    assert len(run.journals) == 0, "nothing is kept of ids without events"
    run.ring()
    run.mark()
    kind = "commit" if commits else "abort"
    assert told(run, 1) == [
        f"50 resumed: the {kind} in 1 partition, which was decided before []",
        f"50 {kind}{'t' if commits else ''}ed: markers in 1 partition, 50 ms after the decision []",
    ]


def test_a_marker_that_is_not_written() -> None:
    run = at(TransactionState.ONGOING)
    run.end(OWNER)
    code = ErrorCode.INVALID_PRODUCER_EPOCH
    run.shard.marker_refused(run.sent[-1], A, code, run.moment)
    assert told(run, 2) == ["0 marker-refused: t-0: INVALID_PRODUCER_EPOCH []"]


def test_an_expired_id_is_told_of_as_long_as_this_broker_coordinates_it() -> None:
    run = at(TransactionState.EMPTY)
    run.pass_time(WEEK_MS + HOUR_MS)
    assert list(run.shard.ids) == []
    run.add(OWNER, A)
    assert [entry.event for entry in entries(run)] == ["loaded", "expired", "refused"]
    assert entries(run)[-1].reason.endswith("INVALID_PRODUCER_ID_MAPPING")
    run.init()
    assert [entry.event for entry in entries(run)][2:] == ["refused", "initialized"]
    run.pass_time(WEEK_MS + HOUR_MS)
    run.lose()
    assert entries(run) == []
    assert len(run.journals) == 0


# Limits.


def test_a_journal_has_the_last_entries_and_the_rare_ones() -> None:
    run = Running()
    producer = run.init().got
    for _ in range(ENTRIES_MAX):
        run.add(producer, A)
        run.end(producer)
        run.mark()
    events = [entry.event for entry in entries(run)]
    assert len(events) == ENTRIES_MAX
    assert events[0] == "initialized"
    assert events[-3:] == ["began", "commit", "committed"]


def test_the_client_id_is_cut() -> None:
    run = at(TransactionState.ONGOING)
    request = EndTransaction(ID, Producer(7, 2), True, lambda code, _: (code, OWNER))  # type: ignore[arg-type, return-value]
    caller = Caller("x" * 30_000, "/::1", 3)
    run.run(ID, run.shard.end(request, caller, Waiting(request), run.moment))
    assert entries(run)[-1].who == "x" * 100 + " at ::1"


def test_only_so_many_ids_have_a_journal() -> None:
    run = Running()
    run.journals = Journals(2)
    run.shard = run._made()
    for key in "abac":
        run.init(key=key)
    assert len(run.journals) == 2
    assert [len(entries(run, key)) for key in "abc"] == [2, 0, 1]
    run.init(key="b")
    assert [len(entries(run, key)) for key in "abc"] == [0, 1, 1]


def test_a_shard_forgets_its_own_journals_only() -> None:
    run = Running()
    run.init()
    other = Running()
    other.journals = run.journals
    other.shard = type(run.shard)(1, lambda: run.settings, run.journals)
    other.init(key="other")
    run.shard.unload()
    assert entries(run) == []
    assert len(entries(other, "other")) == 1
