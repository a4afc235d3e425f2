"""What DescribeTransactions and ListTransactions tell of transactional ids in every state."""

from typing import Final

from odradek.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.k66_list_transactions import ListTransactionsRequest
from tests.wire.conversations_transactions import STATES, Conversation
from tests.wire.talk import versions
from tests.wire.transaction_talk import Transactional, TransactionTalk

LIST: Final = 66
LONG_MS: Final = 1 << 50
STATE_NAMES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def _in_all_states(talk: TransactionTalk) -> dict[str, Transactional]:
    talk.create("t", 2)
    found = {bring.__name__: bring(talk, bring.__name__) for bring in STATES}
    again = talk.producer("again").init()
    again.add(talk.topic("t")).send(talk.topic("t")).end().init()
    return {**found, "again": again}


def _note_listed(
    talk: TransactionTalk, label: str, request: ListTransactionsRequest, version: int
) -> None:
    """Note what is listed of this conversation's ids."""
    answer = talk.exchange(request, version)
    mine = [
        state
        for state in answer.transaction_states
        if state.transactional_id.startswith(f"{talk.topic_prefix}-")
    ]
    answer.transaction_states = mine
    talk.note(label, talk.plain(answer, version))


def describe_transactions(talk: TransactionTalk) -> None:
    """Every state, unknown ids, the same twice, none."""
    producers = _in_all_states(talk)
    ids = [producer.id for producer in producers.values()]
    talk.ask("all", DescribeTransactionsRequest(transactional_ids=ids), 0)
    for label, wanted in (
        ("none", []),
        ("empty id", [""]),
        ("unknown", [talk.topic("absent")]),
        ("twice", [ids[1], ids[1]]),
        ("unknown between", [ids[1], talk.topic("absent"), ids[2]]),
    ):
        talk.ask(label, DescribeTransactionsRequest(transactional_ids=wanted), 0)
    talk.release()


def list_transactions(talk: TransactionTalk) -> None:
    """Every filter, and filters together."""
    producers = _in_all_states(talk)
    open_one, none = producers["ongoing"].identity[0], 1 << 60
    for version in versions(LIST):
        for label, request in (
            ("all", ListTransactionsRequest()),
            ("unknown states", ListTransactionsRequest(state_filters=["Nope", "", "empty"])),
            ("a known, an unknown", ListTransactionsRequest(state_filters=["Empty", "Nope"])),
            ("unknown twice", ListTransactionsRequest(state_filters=["Nope", "Nope"])),
            ("producer", ListTransactionsRequest(producer_id_filters=[open_one])),
            ("no producer", ListTransactionsRequest(producer_id_filters=[none, -1])),
            (
                "producer in another state",
                ListTransactionsRequest(producer_id_filters=[open_one], state_filters=["Empty"]),
            ),
        ):
            _note_listed(talk, f"v{version} {label}", request, version)
        for state in STATE_NAMES:
            request = ListTransactionsRequest(state_filters=[state])
            _note_listed(talk, f"v{version} {state}", request, version)
    for duration_ms in (-1, -7, 0, 1, 3_600_000, LONG_MS, (1 << 63) - 1):
        request = ListTransactionsRequest(duration_filter=duration_ms)
        _note_listed(talk, f"for {duration_ms} ms", request, 1)
        request = ListTransactionsRequest(duration_filter=duration_ms, state_filters=["Empty"])
        _note_listed(talk, f"Empty for {duration_ms} ms", request, 1)
    talk.release()


CONVERSATIONS: tuple[Conversation, ...] = (describe_transactions, list_transactions)
