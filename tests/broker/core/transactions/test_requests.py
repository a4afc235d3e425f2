"""What every request gets in every state of a transactional id, and what is appended and sent."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from odradek.broker.core.effects import Producer
from odradek.broker.core.transactions.states import PREPARED, TransactionState
from odradek.broker.core.transactions.transaction import Snapshot
from odradek.broker.core.transactions.transactional_id import Transaction
from odradek.protocol.errors import ErrorCode
from tests.support.traces import check_trace

from .running import ID, TIMEOUT_MS, WALL_MS, A, B, Running, Waiting

TRACES: Final = Path(__file__).parent / "traces"
OWNER: Final = Producer(7, 3)
STATES: Final = (None, *list(TransactionState)[:6])

REQUESTS: Final[dict[str, Callable[[Running], Waiting | ErrorCode]]] = {
    "init": lambda run: run.init(),
    "init, claims to be 7/3": lambda run: run.init(OWNER),
    "init, claims to be 7/2": lambda run: run.init(Producer(7, 2)),
    "init, claims to be 8/3": lambda run: run.init(Producer(8, 3)),
    "add t-0": lambda run: run.add(OWNER, A),
    "add t-1": lambda run: run.add(OWNER, B),
    "add t-1 as 7/2": lambda run: run.add(Producer(7, 2), B),
    "add t-1 as 7/4": lambda run: run.add(Producer(7, 4), B),
    "add t-1 as 8/3": lambda run: run.add(Producer(8, 3), B),
    "commit": lambda run: run.end(OWNER),
    "commit as 7/2": lambda run: run.end(Producer(7, 2)),
    "commit as 7/4": lambda run: run.end(Producer(7, 4)),
    "commit as 8/3": lambda run: run.end(Producer(8, 3)),
    "abort": lambda run: run.end(OWNER, commits=False),
    "verify t-0": lambda run: run.verify(OWNER, A),
    "verify t-1": lambda run: run.verify(OWNER, B),
    "verify t-0 as 7/2": lambda run: run.verify(Producer(7, 2), A),
    "verify t-0 as 8/3": lambda run: run.verify(Producer(8, 3), A),
}


def at(state: TransactionState | None, **more: int) -> Running:
    """A shard that has loaded an id in this state, with t-0 in its transaction."""
    run = Running(version=more.get("version", 0))
    if state is None:
        return run
    is_open = state is TransactionState.ONGOING or state in PREPARED
    known = Snapshot(
        OWNER.producer_id,
        more.get("epoch", OWNER.producer_epoch),
        TIMEOUT_MS,
        state,
        frozenset({A} if is_open else ()),
        start_ms=-1 if state is TransactionState.EMPTY else WALL_MS,
        update_ms=WALL_MS,
        last_producer_id=more.get("last_producer_id", OWNER.producer_id),
        next_producer_id=more.get("next_producer_id", -1),
        client_version=more.get("client_version", 0),
    )
    run.log.append(known.record(ID, int(run.settings.version == 2)))
    run.lose()
    return run


def told(run: Running, before: int, answer: Waiting | ErrorCode) -> str:
    """The answer, what was appended, and the markers."""
    words = []
    if not isinstance(answer, Waiting):
        words.append(answer.name)
    elif answer.code is None:
        words.append("waits")
    elif answer.code is ErrorCode.NONE and answer.producer.producer_id >= 0:
        words.append(f"{answer.producer.producer_id}/{answer.producer.producer_epoch}")
    else:
        words.append(answer.code.name)
    for record in run.log[before:]:
        value = record.value
        assert value is not None
        words.append(
            f"{TransactionState(value.transaction_status).kafka_name}"
            f" {value.producer_id}/{value.producer_epoch}"
        )
    for markers in run.sent:
        kind = "commit" if markers.commits else "abort"
        words.append(f"{kind} markers of {markers.producer.producer_id}/")
        words[-1] += str(markers.producer.producer_epoch)
    return ", ".join(words)


def test_every_request_in_every_state() -> None:
    lines = []
    for state in STATES:
        lines.append("No such id" if state is None else state.kafka_name)
        for name, ask in REQUESTS.items():
            run = at(state)
            before = len(run.log)
            lines.append(f"  {name:24}{told(run, before, ask(run))}")
        lines.append("")
    check_trace(TRACES / "requests.txt", "\n".join(lines))


BEGUN: Final[dict[str, tuple[TransactionState | None, Callable[[Running], object]]]] = {
    "the first InitProducerId": (None, lambda run: run.init()),
    "another InitProducerId": (TransactionState.EMPTY, lambda run: run.init()),
    "the first partition": (TransactionState.EMPTY, lambda run: run.add(OWNER, A)),
    "another partition": (TransactionState.ONGOING, lambda run: run.add(OWNER, B)),
    "a commit": (TransactionState.ONGOING, lambda run: run.end(OWNER)),
    "an abort": (TransactionState.ONGOING, lambda run: run.end(OWNER, commits=False)),
    "a fence": (TransactionState.ONGOING, lambda run: run.init()),
    "a complete commit": (TransactionState.PREPARE_COMMIT, lambda run: marked(run)),
    "a complete abort": (TransactionState.PREPARE_ABORT, lambda run: marked(run)),
    "the next transaction": (TransactionState.COMPLETE_COMMIT, lambda run: run.add(OWNER, A)),
    "the end of the id": (TransactionState.COMPLETE_ABORT, lambda run: run.pass_time(8 * DAY_MS)),
}
DAY_MS: Final = 86_400_000


def marked(run: Running) -> None:
    run.ring()
    run.mark()


def test_every_request_while_something_is_pending() -> None:
    """Whatever the log has taken and not committed: requests wait for it, or are refused."""
    lines = []
    for what, (state, begin) in BEGUN.items():
        lines.append(f"While {what} is pending")
        for name, ask in REQUESTS.items():
            run = at(state)
            run.holds = True
            begin(run)
            assert len(run.appends) == 1
            before = len(run.log)
            run.sent.clear()
            lines.append(f"  {name:24}{told(run, before, ask(run))}")
        lines.append("")
    check_trace(TRACES / "pending.txt", "\n".join(lines))


@pytest.mark.parametrize("what", BEGUN)
def test_what_was_pending_takes_effect_once_it_is_committed(what: str) -> None:
    state, begin = BEGUN[what]
    run = at(state)
    run.holds = True
    begin(run)
    if state is not None:
        assert run.known().state is state
    run.commit()
    found = {key: found.known._replace(last_producer_id=-1) for key, found in transactions(run)}
    assert found == run.replayed()
    for _, each in transactions(run):
        assert (each.pending is not None) is (each.known.state in PREPARED)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("what", BEGUN)
def test_what_the_log_refuses_has_not_happened(
    what: str, code: ErrorCode, expected: ErrorCode
) -> None:
    state, begin = BEGUN[what]
    run = at(state)
    run.ring()
    before = [(key, found.known) for key, found in transactions(run)]
    run.refuse = code
    waiting = begin(run)
    assert [(key, found.known) for key, found in transactions(run)] == before
    if isinstance(waiting, Waiting):
        assert waiting.code is expected
    run.refuse = ErrorCode.NONE
    if state in PREPARED:  # only the coordinator itself can try again
        run.pass_time(100)
        assert len(run.log) == 2
    else:
        assert all(found.pending is None for _, found in transactions(run))
        begin(run)
        assert len(run.log) == (1 if state is None else 2)


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("what", BEGUN)
def test_leadership_is_lost_meanwhile(what: str, kept: bool, told: bool) -> None:
    """The next coordinator goes on with what it finds; who waits is told, or left alone."""
    state, begin = BEGUN[what]
    run = at(state)
    run.holds = True
    waiting = begin(run)
    run.lose(kept=None if kept else run.committed, told=told)
    if isinstance(waiting, Waiting):
        assert waiting.code is (ErrorCode.NOT_COORDINATOR if told else None)
    assert {key: found.known for key, found in transactions(run)} == run.replayed()
    run.holds = False
    run.sent.clear()
    run.ring()
    if run.sent:
        run.mark()
    assert not any(found.known.state in PREPARED for _, found in transactions(run))


def transactions(run: Running) -> list[tuple[str, Transaction]]:
    return list(run.shard._transactions.items())
