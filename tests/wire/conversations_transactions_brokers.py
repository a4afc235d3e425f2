"""AddPartitionsToTxn as brokers send it: for several transactions, to add or only to ask."""

from typing import Final

from odradek.protocol.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest
from tests.broker.transaction_requests import NOBODY, Identity, ask_of_partitions
from tests.wire.conversations_transactions import (
    STATES,
    Conversation,
    complete_commit,
    ongoing,
    prepare_abort,
)
from tests.wire.transaction_talk import Transactional, TransactionTalk

BROKERS_VERSIONS: Final = range(4, 6)


def _others(identity: Identity) -> tuple[tuple[str, Identity], ...]:
    return (
        ("itself", identity),
        ("an epoch before", (identity[0], identity[1] - 1)),
        ("an epoch after", (identity[0], identity[1] + 1)),
        ("another id", (identity[0] + 1_000_000, identity[1])),
        ("nobody", NOBODY),
    )


def verified_in_every_state(talk: TransactionTalk) -> None:
    """Whether partitions are in a transaction, as the producer and as others."""
    topic = talk.create("t", 2)
    producers = [(bring.__name__, bring(talk, bring.__name__)) for bring in STATES]
    for version in BROKERS_VERSIONS:
        for name, producer in producers:
            for who, identity in _others(producer.identity):
                for partitions in ((0,), (1, 0), (0, 9)):
                    request = ask_of_partitions(producer.id, identity, topic, *partitions)
                    talk.ask(f"v{version} {name} {who} {partitions}", request, version)
    for name, producer in producers:
        talk.note_settled(f"{name}: state", producer.id)
    talk.release()


def added_by_brokers(talk: TransactionTalk) -> None:
    """Partitions are added, in every state, as the producer and as others."""
    topic = talk.create("t", 3)
    for version in BROKERS_VERSIONS:
        for bring in STATES:
            producer = bring(talk, f"{bring.__name__}-{version}")
            for who, identity in reversed(_others(producer.identity)):
                request = ask_of_partitions(producer.id, identity, topic, 2, verify_only=False)
                label = f"v{version} {bring.__name__} {who}"
                talk.ask(label, request, version)
                talk.note_settled(f"{label}: state", producer.id)
    talk.release()


Wanted = tuple[Transactional, bool, tuple[int, ...]]
"""A transaction, whether it is only asked about, and partitions."""


def _batched(topic: str, *wanted: Wanted) -> AddPartitionsToTxnRequest:
    requests = [
        ask_of_partitions(who.id, who.identity, topic, *partitions, verify_only=only)
        for who, only, partitions in wanted
    ]
    return AddPartitionsToTxnRequest(transactions=[one.transactions[0] for one in requests])


def several_transactions(talk: TransactionTalk) -> None:
    """Several transactions in one request, in several states; what cannot be."""
    topic, absent, offsets = talk.create("t", 3), talk.topic("absent"), "__consumer_offsets"
    for version in BROKERS_VERSIONS:
        a, b = ongoing(talk, f"a{version}"), complete_commit(talk, f"b{version}")
        c, d = prepare_abort(talk, f"c{version}"), talk.producer(f"d{version}")
        me = d.identity = a.identity
        asking = [(a, True, (0, 1)), (b, True, (0,)), (c, True, (0,)), (d, True, (0,))]
        adding = [(b, False, (0, 1)), (c, False, (0,)), (d, False, (0,)), (a, True, (2,))]
        for label, request in (
            ("asked", _batched(topic, *asking)),
            ("added", _batched(topic, *adding)),
            ("empty id", ask_of_partitions("", me, topic, 0)),
            ("empty id, added", ask_of_partitions("", me, topic, 0, verify_only=False)),
            ("unknown topic", ask_of_partitions(a.id, me, absent, 0)),
            ("unknown topic, added", ask_of_partitions(a.id, me, absent, 0, verify_only=False)),
            ("one unknown, added", ask_of_partitions(a.id, me, topic, 2, 7, verify_only=False)),
            ("offsets topic", ask_of_partitions(a.id, me, offsets, 0)),
            ("offsets topic, added", ask_of_partitions(a.id, me, offsets, 0, verify_only=False)),
        ):
            talk.ask(f"v{version} {label}", request, version)
            for name, producer in (("a", a), ("b", b), ("c", c)):
                talk.note_settled(f"v{version} {label}: {name}", producer.id)
    talk.release()


CONVERSATIONS: tuple[Conversation, ...] = (
    verified_in_every_state,
    added_by_brokers,
    several_transactions,
)
