"""Transactional ids: every request in every state, by its producer and by others."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from odradek.protocol.schema import Message
from tests.broker.transaction_requests import (
    NOBODY,
    Identity,
    add_offsets,
    add_partitions,
    end,
    init_producer,
)
from tests.wire.talk import versions
from tests.wire.transaction_talk import (
    INIT_LAST,
    Transactional,
    TransactionTalk,
    commit_request,
    transactional_batch,
)

PRODUCE, FIND, INIT, ADD, OFFSETS, END, COMMIT = 0, 10, 22, 24, 25, 26, 28
PRODUCER_VERSION_LAST: Final = 3
"""Of AddPartitionsToTxn; only brokers send later ones."""
INT32_MAX: Final = 2**31 - 1

Conversation = Callable[[TransactionTalk], None]


# States.


def empty(talk: TransactionTalk, stem: str) -> Transactional:
    return talk.producer(stem).init().init()  # there is an epoch before


def ongoing(talk: TransactionTalk, stem: str) -> Transactional:
    topic = talk.topic("t")
    return empty(talk, stem).add(topic).send(topic)


def complete_commit(talk: TransactionTalk, stem: str) -> Transactional:
    return ongoing(talk, stem).end(commits=True)


def complete_abort(talk: TransactionTalk, stem: str) -> Transactional:
    return ongoing(talk, stem).end(commits=False)


def prepare_commit(talk: TransactionTalk, stem: str) -> Transactional:
    return empty(talk, stem).add(talk.stuck()).begin_end(commits=True)


def prepare_abort(talk: TransactionTalk, stem: str) -> Transactional:
    return empty(talk, stem).add(talk.stuck()).begin_end(commits=False)


def unknown(talk: TransactionTalk, stem: str) -> Transactional:
    """Nobody has used this id; the producer id is that of another one."""
    producer = talk.producer(stem)
    producer.identity = empty(talk, "known").identity
    return producer


STATES: Final = (
    unknown,
    empty,
    ongoing,
    complete_commit,
    complete_abort,
    prepare_commit,
    prepare_abort,
)


# Requests.


class Asked(NamedTuple):
    """A request of a producer, in the versions in which its error codes differ."""

    name: str
    versions: tuple[int, ...]
    request: Callable[[TransactionTalk, Transactional, Identity], Message]


def _add(talk: TransactionTalk, producer: Transactional, identity: Identity) -> Message:
    return add_partitions(producer.id, identity, talk.topic("t"), 1)


def _add_again(talk: TransactionTalk, producer: Transactional, identity: Identity) -> Message:
    return add_partitions(producer.id, identity, talk.topic("t"), 0)


def _add_offsets(talk: TransactionTalk, producer: Transactional, identity: Identity) -> Message:
    return add_offsets(producer.id, identity, talk.group())


def _commit(talk: TransactionTalk, producer: Transactional, identity: Identity) -> Message:
    return end(producer.id, identity, commits=True)


def _abort(talk: TransactionTalk, producer: Transactional, identity: Identity) -> Message:
    return end(producer.id, identity, commits=False)


def _produce(talk: TransactionTalk, producer: Transactional, identity: Identity) -> Message:
    return producer.request(talk.topic("t"), transactional_batch(identity, 0), 1)


def _offsets(talk: TransactionTalk, producer: Transactional, identity: Identity) -> Message:
    return commit_request(producer, talk.group(), talk.topic("t"), identity=identity)


def _init(talk: TransactionTalk, producer: Transactional, identity: Identity) -> Message:
    return init_producer(producer.id)


def _claim(talk: TransactionTalk, producer: Transactional, identity: Identity) -> Message:
    return init_producer(producer.id, identity)


ADD_PARTITIONS: Final = Asked("add", (1, 2, 3), _add)
ADD_AGAIN: Final = Asked("add what is there", (3,), _add_again)
ADD_OFFSETS: Final = Asked("add offsets", (1, 2, 4), _add_offsets)
COMMITS: Final = Asked("commit", (1, 2, 4), _commit)
ABORTS: Final = Asked("abort", (1, 2, 4), _abort)
PRODUCES: Final = Asked("produce", (3, 10, 11), _produce)
COMMITS_OFFSETS: Final = Asked("commit offsets", (2, 3, 4), _offsets)
INITS: Final = Asked("init", (0, 3, 4, 5), _init)
CLAIMS: Final = Asked("claim", (3, 4, 5), _claim)


def _in_every_state(talk: TransactionTalk, *asked: Asked, others: bool) -> None:
    """Ask as the producer in every state, each time with another id; then as others."""
    talk.create("t", 2)
    for bring in STATES:
        for name, its_versions, make in asked:
            who: tuple[tuple[str, Callable[[Identity], Identity]], ...] = (("itself", _same),)
            if others:
                who = OTHERS
            for version in its_versions if not others else (its_versions[0], its_versions[-1]):
                for label, other in who:
                    shown = f"{bring.__name__}: {name} v{version} {label}"
                    producer = bring(talk, f"{name}-{bring.__name__}-{version}-{label}")
                    request = make(talk, producer, other(producer.identity))
                    answer = talk.exchange(request, version)
                    if isinstance(request, InitProducerIdRequest):
                        talk.name_producer(answer.producer_id, producer.id)
                    talk.note(shown, talk.plain(answer, version))
                    talk.note_settled(f"{shown}: state", producer.id)
    talk.release()


def _same(identity: Identity) -> Identity:
    return identity


OTHERS: Final = (
    ("an epoch before", lambda identity: (identity[0], identity[1] - 1)),
    ("an epoch after", lambda identity: (identity[0], identity[1] + 1)),
    ("another id", lambda identity: (identity[0] + 1_000_000, identity[1])),
    ("nobody", lambda _: NOBODY),
)


def add_in_every_state(talk: TransactionTalk) -> None:
    """AddPartitionsToTxn and AddOffsetsToTxn."""
    _in_every_state(talk, ADD_PARTITIONS, ADD_AGAIN, ADD_OFFSETS, others=False)


def add_as_others(talk: TransactionTalk) -> None:
    """The same with ids and epochs that are not the producer's."""
    _in_every_state(talk, ADD_PARTITIONS, ADD_OFFSETS, others=True)


def end_in_every_state(talk: TransactionTalk) -> None:
    """EndTxn: repeated, the opposite, and without a transaction."""
    _in_every_state(talk, COMMITS, ABORTS, others=False)


def end_as_others(talk: TransactionTalk) -> None:
    """The same with ids and epochs that are not the producer's."""
    _in_every_state(talk, COMMITS, ABORTS, others=True)


def init_in_every_state(talk: TransactionTalk) -> None:
    """InitProducerId by a new producer, and by the one that is there (KIP-360)."""
    _in_every_state(talk, INITS, CLAIMS, others=False)


def init_as_others(talk: TransactionTalk) -> None:
    """Claims of other ids and epochs."""
    _in_every_state(talk, CLAIMS, others=True)


def produce_in_every_state(talk: TransactionTalk) -> None:
    """Produce and TxnOffsetCommit for what was not added."""
    _in_every_state(talk, PRODUCES, COMMITS_OFFSETS, others=False)


def produce_as_others(talk: TransactionTalk) -> None:
    """The same with ids and epochs that are not the producer's."""
    _in_every_state(talk, PRODUCES, COMMITS_OFFSETS, others=True)


# InitProducerId.


def init_refused(talk: TransactionTalk) -> None:
    """Ids, timeouts and claims that cannot be."""
    for version in versions(INIT):
        for label, transactional_id, timeout_ms in (
            ("empty id", "", 60_000),
            ("no id, timeout -1", None, -1),
            ("timeout 0", talk.topic("id"), 0),
            ("timeout -1", talk.topic("id"), -1),
            ("timeout 900001", talk.topic("id"), 900_001),
            ("timeout 2^31-1", talk.topic("id"), INT32_MAX),
            ("empty id, timeout 0", "", 0),
        ):
            request = init_producer(transactional_id, timeout_ms=timeout_ms)
            talk.ask(f"v{version} {label}", request, version)
        if version < 3:
            continue
        for claimed in ((5, 3), (5, -1), (-1, 3), (-7, 0), (5, 32767)):
            stem = f"v{version} {claimed}"
            producer = talk.producer(f"claim-{version}-{claimed[0]}-{claimed[1]}")
            producer.ask_init(stem, claimed, version)
            talk.note_settled(f"{stem}: state", producer.id)


def init_long_ids(talk: TransactionTalk) -> None:
    """Ids of any length and with any characters; a record can hold 32,767 bytes."""
    for label, transactional_id in (
        ("249", "x" * 249),
        ("1000", "x" * 1000),
        ("characters", "ä/\n\0 ."),
        ("a space", " "),
        ("32767", "x" * 32_767),
        ("32766 in two bytes each", "ä" * 16_383),
    ):
        for version in (0, INIT_LAST):
            talk.ask(f"{label} v{version}", init_producer(transactional_id), version)
    talk.ask("32768", init_producer("x" * 32_768), INIT_LAST)
    talk.ask("40000", init_producer("x" * 40_000), INIT_LAST)


def init_claims(talk: TransactionTalk) -> None:
    """KIP-360: who bumps its epoch, who repeats that, and who comes too late."""
    topic = talk.create("t")
    for version in versions(INIT, 3):
        producer = talk.producer(f"v{version}").init()
        first = producer.identity
        producer.ask_init(f"v{version} current", first, version)
        second = producer.identity
        producer.ask_init(f"v{version} the same again", first, version)
        producer.ask_init(f"v{version} the next", second, version)
        producer.ask_init(f"v{version} the first again", first, version)
        producer.ask_init(f"v{version} the second again", second, version)
        third = producer.identity
        producer.add(topic).send(topic).end()
        producer.ask_init(f"v{version} after a commit, the second", second, version)
        producer.ask_init(f"v{version} after a commit", third, version)
        producer.add(topic).send(topic)
        open_one = producer.identity
        producer.ask_init(f"v{version} ongoing, old", third, version)
        talk.note_settled(f"v{version} ongoing, old: state", producer.id)
        if talk.described(producer.id).transaction_state == "Ongoing":
            producer.ask_init(f"v{version} ongoing", open_one, version)
            talk.note_settled(f"v{version} ongoing: state", producer.id)
        producer.ask_init(f"v{version} aborted", open_one, version)
        producer.ask_init(f"v{version} aborted, again", open_one, version)
        producer.ask_init(f"v{version} anybody", version=version)
        producer.ask_init(f"v{version} too late", open_one, version)
        talk.note_settled(f"v{version}: state", producer.id)


def init_changes_the_timeout(talk: TransactionTalk) -> None:
    """The timeout is that of the last producer."""
    topic = talk.create("t")
    producer = talk.producer()
    for timeout_ms in (1, 900_000, 5_000):
        producer.ask_init(f"{timeout_ms}", timeout_ms=timeout_ms)
        talk.note_settled(f"{timeout_ms}: state", producer.id)
    producer.add(topic)
    producer.ask_init("ongoing", timeout_ms=7_000)
    talk.note_settled("ongoing: state", producer.id)


# AddPartitionsToTxn, AddOffsetsToTxn, FindCoordinator.


def add_refused(talk: TransactionTalk) -> None:
    """Unknown topics and partitions, no id, nothing, the same twice, internal topics."""
    topic = talk.create("t", 3)
    for version in range(PRODUCER_VERSION_LAST + 1):
        producer = talk.producer(f"v{version}").init()
        me = producer.identity
        for label, request in (
            ("unknown topic", add_partitions(producer.id, me, talk.topic("absent"), 0, 1)),
            ("unknown partition", add_partitions(producer.id, me, topic, 0, 7, 1)),
            ("partition -1", add_partitions(producer.id, me, topic, -1)),
            ("no partitions", add_partitions(producer.id, me, topic)),
            ("empty id", add_partitions("", me, topic, 0)),
            ("empty id, unknown", add_partitions("", me, talk.topic("absent"), 0)),
            ("unknown id, unknown", add_partitions(talk.topic("no"), me, topic, 0, 7)),
            ("fenced, unknown", add_partitions(producer.id, producer.old, topic, 0, 7)),
            ("offsets topic", add_partitions(producer.id, me, "__consumer_offsets", 0)),
            ("twice", add_partitions(producer.id, me, topic, 1, 1)),
            ("no topic", _without_topics(add_partitions(producer.id, me, topic))),
        ):
            talk.ask(f"v{version} {label}", request, version)
            talk.note_settled(f"v{version} {label}: state", producer.id)
        two = add_partitions(producer.id, me, topic, 2)
        absent = add_partitions(producer.id, me, talk.topic("absent"), 0)
        two.v3_and_below_topics += absent.v3_and_below_topics
        talk.ask(f"v{version} one known of two topics", two, version)
        talk.note_settled(f"v{version} one known of two topics: state", producer.id)


def _without_topics(request: Any) -> Any:
    request.v3_and_below_topics = []
    return request


def add_offsets_refused(talk: TransactionTalk) -> None:
    """No id, no group."""
    for version in versions(OFFSETS):
        producer = talk.producer(f"v{version}").init()
        for label, transactional_id, group_id in (
            ("empty id", "", "g"),
            ("empty group", producer.id, ""),
            ("unknown id", talk.topic("no"), "g"),
        ):
            request = add_offsets(transactional_id, producer.identity, group_id)
            talk.ask(f"v{version} {label}", request, version)
            talk.note_settled(f"v{version} {label}: state", producer.id)


def end_refused(talk: TransactionTalk) -> None:
    """EndTxn without an id."""
    for version in versions(END):
        for commits in (True, False):
            request = end("", (1, 0), commits=commits)
            talk.ask(f"v{version} commits={commits}", request, version)


def coordinators_of_transactions(talk: TransactionTalk) -> None:
    """FindCoordinator for transactional ids."""
    for version in range(1, 4):
        for key in ("t", "", "x" * 300, "__transaction_state"):
            asked = FindCoordinatorRequest(key=key, key_type=1)
            talk.ask(f"v{version} {key[:20]!r}", asked, version)
    for version in range(4, 7):
        asked = FindCoordinatorRequest(key_type=1, coordinator_keys=["t", "", "u", "t"])
        talk.ask(f"v{version}", asked, version)
        asked = FindCoordinatorRequest(key_type=1, coordinator_keys=[])
        talk.ask(f"v{version} none", asked, version)


CONVERSATIONS: tuple[Conversation, ...] = (
    add_in_every_state,
    add_as_others,
    end_in_every_state,
    end_as_others,
    init_in_every_state,
    init_as_others,
    produce_in_every_state,
    produce_as_others,
    init_refused,
    init_long_ids,
    init_claims,
    init_changes_the_timeout,
    add_refused,
    add_offsets_refused,
    end_refused,
    coordinators_of_transactions,
)
