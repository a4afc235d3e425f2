"""Version 2 of transactions (KIP-890): an epoch for each transaction, and implicit adding."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k66_list_transactions import ListTransactionsRequest
from odradek.protocol.records import Record, build_batch
from odradek.protocol.transaction_records import (
    TransactionLogValue,
    TransactionRecord,
    encode_record,
)
from tests.broker.transaction_requests import (
    NOBODY,
    Identity,
    add_offsets,
    add_partitions,
    ask_of_partitions,
    end,
    init_producer,
    write_markers,
)
from tests.support.messages import fetch_request, produce_request
from tests.support.waiting import until
from tests.wire.transaction_talk import (
    CONCURRENT_TRANSACTIONS,
    FETCH_LAST,
    INIT_LAST,
    PRODUCE_LAST,
    TRANSACTION_PARTITIONS,
    Transactional,
    TransactionTalk,
    commit_request,
    transaction_records,
    transactional_batch,
)

PRODUCE_2, END_2, COMMIT_2, LIST_2, MARKERS_2, BETWEEN_BROKERS = 12, 5, 5, 2, 2, 5
ADMIN: Final = "__admin_client"
FEATURE: Final = "transaction.version"
WORN_EPOCH: Final = (1 << 15) - 3
"""The last one but one."""

Conversation = Callable[["TalkOfVersion2"], None]


class TalkOfVersion2(TransactionTalk):
    """A conversation with producers of version 2."""

    def producer(self, stem: str = "id") -> "Version2":
        """Someone with a transactional id of this conversation."""
        return Version2(self, self.topic(stem))

    def create(self, stem: str, partitions: int = 1, **configs: str) -> str:
        """Create a topic, and wait until all of it is served, which takes Kafka 4 a moment."""
        topic = super().create(stem, partitions, **configs)
        for partition in range(partitions):
            until(partial(self._is_served, topic, partition))
        return topic

    def _is_served(self, topic: str, partition: int) -> bool:
        answer = self.exchange(fetch_request(topic, 0, partition=partition), FETCH_LAST)
        return bool(answer.responses[0].partitions[0].error_code == 0)

    def note_values(self, label: str, *producers: Transactional) -> None:
        """Note the values of these ids, with the version in which they are written."""
        ids = {producer.id: producer for producer in producers}
        found: dict[str, list[Any]] = {name: [] for name in ids}
        for partition in range(TRANSACTION_PARTITIONS):
            log_dir = self.server.data_dir / f"__transaction_state-{partition}"
            for record in transaction_records(log_dir):
                if record.transactional_id in ids and record.value is not None:
                    shown = self.plain(record.value, 1)
                    found[record.transactional_id].append([record.version, shown])
        for name, records in found.items():
            self.note(f"{label}: {name}", records)


class Version2(Transactional):
    """A transactional id whose producer speaks version 2."""

    def send(self, topic: str, *values: bytes, partition: int = 0) -> "Version2":
        """Write a batch, which adds the partition."""
        data = self.batch(topic, *(values or (b"v",)), partition=partition)
        answer = self.talk.exchange(self.request(topic, data, partition), PRODUCE_2)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
        return self

    def send_as_1(self, topic: str, *values: bytes, partition: int = 0) -> "Version2":
        """Write a batch as a producer of version 1."""
        super().send(topic, *values, partition=partition)
        return self

    def end(self, *, commits: bool = True) -> "Version2":
        """End the transaction, go on with the next epoch, and wait for the markers."""
        answer = self._done(end(self.id, self.identity, commits=commits), END_2)
        self._learn(answer)
        self.talk.wait_for(self.id, "CompleteCommit" if commits else "CompleteAbort")
        return self

    def end_as_1(self, *, commits: bool = True) -> "Version2":
        """End the transaction as a producer of version 1."""
        super().end(commits=commits)
        return self

    def ask_end(
        self,
        label: str,
        identity: Identity | None = None,
        *,
        commits: bool = True,
        version: int = END_2,
    ) -> None:
        """Ask for an end; note the answer and the state after it."""
        request = end(self.id, self.identity if identity is None else identity, commits=commits)
        answer = self.talk.exchange(request, version)
        if version == END_2:
            self.talk.name_producer(answer.producer_id, self.id)
        self.talk.note(label, self.talk.plain(answer, version))
        self.talk.note_settled(f"{label}: state", self.id)


# States.


def empty(talk: TalkOfVersion2, stem: str) -> Version2:
    """There are two epochs before."""
    producer = talk.producer(stem)
    producer.init().init().init()
    return producer


def ongoing(talk: TalkOfVersion2, stem: str) -> Version2:
    return empty(talk, stem).send(talk.topic("t"))


def complete_commit(talk: TalkOfVersion2, stem: str) -> Version2:
    return ongoing(talk, stem).end()


def complete_abort(talk: TalkOfVersion2, stem: str) -> Version2:
    return ongoing(talk, stem).end(commits=False)


def aborted_without_partitions(talk: TalkOfVersion2, stem: str) -> Version2:
    return empty(talk, stem).end(commits=False)


def committed_by_1(talk: TalkOfVersion2, stem: str) -> Version2:
    """By a client of version 1."""
    producer = empty(talk, stem)
    producer.add(talk.topic("t"))
    return producer.send_as_1(talk.topic("t")).end_as_1()


def unknown(talk: TalkOfVersion2, stem: str) -> Version2:
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
    aborted_without_partitions,
    committed_by_1,
)
OTHERS: Final[tuple[tuple[str, Callable[[Identity], Identity]], ...]] = (
    ("itself", lambda identity: identity),
    ("an epoch before", lambda identity: (identity[0], identity[1] - 1)),
    ("two before", lambda identity: (identity[0], identity[1] - 2)),
    ("an epoch after", lambda identity: (identity[0], identity[1] + 1)),
    ("another id", lambda identity: (identity[0] + 1_000_000, identity[1])),
    ("nobody", lambda _: NOBODY),
)


def features(talk: TalkOfVersion2) -> None:
    """What ApiVersions says of the feature, and of the APIs with new versions."""
    for version in (0, 2, 3, 4):
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        answer = talk.exchange(request, version)
        talk.note(
            f"v{version}",
            {
                "supported": [
                    talk.plain(each, version)
                    for each in answer.supported_features
                    if each.name == FEATURE
                ],
                "finalized": [
                    talk.plain(each, version)
                    for each in answer.finalized_features
                    if each.name == FEATURE
                ],
                "last": {
                    each.api_key: each.max_version
                    for each in answer.api_keys
                    if each.api_key in (24, 25, 26, 27, 28, 66)
                },
            },
        )


def end_in_every_state(talk: TalkOfVersion2) -> None:
    """EndTxn 5, by the producer and by others."""
    talk.create("t")
    for bring in STATES:
        for commits in (True, False):
            word = "commit" if commits else "abort"
            for label, other in OTHERS:
                producer = bring(talk, f"{bring.__name__}-{word}-{label}")
                producer.ask_end(
                    f"{bring.__name__}: {word} as {label}",
                    other(producer.identity),
                    commits=commits,
                )


def end_as_an_older_client(talk: TalkOfVersion2) -> None:
    """EndTxn 4 and older at a coordinator with version 2."""
    talk.create("t")
    for bring in STATES:
        for commits in (True, False):
            word = "commit" if commits else "abort"
            for version in (1, 4):
                for label, other in OTHERS[:2]:
                    name = f"{bring.__name__}: {word} v{version} as {label}"
                    producer = bring(talk, f"{bring.__name__}-{word}-{version}-{label}")
                    identity = other(producer.identity)
                    producer.ask_end(name, identity, commits=commits, version=version)


def ends_repeated(talk: TalkOfVersion2) -> None:
    """A lost answer is asked for again, also when the next transaction is open."""
    topic = talk.create("t")
    for commits in (True, False):
        word = "commit" if commits else "abort"
        producer = talk.producer(word)
        producer.init()
        first = producer.send(topic).identity
        producer.end(commits=commits)
        producer.ask_end(f"{word} again", first, commits=commits)
        producer.ask_end(f"{word} again, the opposite", first, commits=not commits)
        producer.ask_end(f"{word} again, as version 1", first, commits=commits, version=4)
        producer.send(topic)
        producer.ask_end(f"{word} again, too late", first, commits=commits)
        second = producer.identity
        producer.end(commits=commits)
        producer.init()
        producer.ask_end(f"{word} again, after init", second, commits=commits)
        talk.note_values(word, producer)
    talk.note_log("log", topic)


def produce_in_every_state(talk: TalkOfVersion2) -> None:
    """Produce 12 adds the partition, or does not."""
    topic = talk.create("t", 2)
    for bring in STATES:
        for label, other in OTHERS[:-1]:
            producer = bring(talk, f"{bring.__name__}-{label}")
            name = f"{bring.__name__}: as {label}"
            data = transactional_batch(other(producer.identity), 0)
            talk.ask(name, producer.request(topic, data, 1), PRODUCE_2)
            talk.note_settled(f"{name}: state", producer.id)


def commit_offsets_in_every_state(talk: TalkOfVersion2) -> None:
    """TxnOffsetCommit 5 adds the partition of the group, or does not."""
    topic = talk.create("t")
    for bring in STATES:
        for label, other in OTHERS:
            producer = bring(talk, f"{bring.__name__}-{label}")
            name = f"{bring.__name__}: as {label}"
            asked = commit_request(producer, talk.group(), topic, identity=other(producer.identity))
            talk.ask(name, asked, COMMIT_2)
            talk.note_settled(f"{name}: state", producer.id)


def produce_oddities(talk: TalkOfVersion2) -> None:
    """No id, absent partitions, first sequences that are not 0, and the next transaction."""
    topic = talk.create("t", 3)
    producer = empty(talk, "id")
    me = producer.identity
    for label, partition, sequence in (
        ("sequence 5 first", 0, 5),
        ("absent", 7, 0),
        ("sequence 0", 0, 0),
        ("the same again", 0, 0),
        ("sequence 1", 0, 1),
        ("sequence 7", 0, 7),
        ("sequence 3 in another", 1, 3),
    ):
        data = transactional_batch(me, sequence)
        talk.ask(label, producer.request(topic, data, partition), PRODUCE_2)
        talk.note_settled(f"{label}: state", producer.id)
    without = producer.request(topic, transactional_batch(me, 0), 2)
    without.transactional_id = ""
    talk.ask("empty id", without, PRODUCE_2)
    producer.end()
    for label, partition, sequence in (("next, sequence 1", 0, 1), ("next, sequence 0", 0, 0)):
        data = transactional_batch(producer.identity, sequence)
        talk.ask(label, producer.request(topic, data, partition), PRODUCE_2)
    talk.ask("plain", produce_request(topic, {2: transactional_batch(me, 0)}, acks=1), PRODUCE_2)
    talk.note_settled("state", producer.id)
    talk.note_log("log", topic)
    talk.note_producers("producers", topic, 0, 1, 2)


def fenced_by_another(talk: TalkOfVersion2) -> None:
    """A new producer ends what an older one has begun, and goes on with a later epoch."""
    topic = talk.create("t")
    for how in ("commits", "aborts", "writes", "claims"):
        producer = talk.producer(how)
        producer.init()
        old = producer.send(topic).identity
        talk.note(f"{how}: init", talk.exchange(init_producer(producer.id), 5).error_code)
        talk.wait_for(producer.id, "CompleteAbort")
        talk.note_settled(f"{how}: fenced", producer.id)
        if how in ("commits", "aborts"):
            producer.ask_end(f"{how}: at once", old, commits=how == "commits")
        elif how == "claims":
            producer.ask_init(f"{how}: at once", old)
        producer.ask_init(f"{how}: init again")
        talk.note_settled(f"{how}: initialized", producer.id)
        if how == "writes":
            data = transactional_batch(old, 1)
            talk.ask(f"{how}: later", producer.request(topic, data), PRODUCE_2)
        elif how == "claims":
            producer.ask_init(f"{how}: later", old)
        else:
            producer.ask_end(f"{how}: later", old, commits=how == "commits")
        talk.note_values(how, producer)
    talk.note_log("log", topic)


def timed_out(talk: TalkOfVersion2) -> None:
    """The coordinator aborts what takes too long; the producer may abort it, too, and go on."""
    topic = talk.create("t")
    for how in ("commits", "aborts", "writes", "claims"):
        producer = talk.producer(how)
        producer.init(timeout_ms=100)
        old = producer.send(topic).identity
        talk.wait_for(producer.id, "CompleteAbort")
        talk.note_settled(f"{how}: timed out", producer.id)
        if how == "writes":
            talk.ask(
                f"{how}: late", producer.request(topic, transactional_batch(old, 1)), PRODUCE_2
            )
        elif how == "claims":
            producer.ask_init(f"{how}: late", old)
        else:
            producer.ask_end(f"{how}: late", old, commits=how == "commits")
        talk.note_values(how, producer)
    talk.note_log("log", topic)


def versions_mixed(talk: TalkOfVersion2) -> None:
    """Producers of both versions use one id after the other, and beside each other."""
    topic, group_id = talk.create("t", 3), talk.group()
    producer = talk.producer()
    producer.init()
    producer.add(topic)
    producer.send_as_1(topic).end_as_1()
    producer.send(topic, partition=1)
    producer.end()
    producer.init()
    producer.add(topic)
    producer.add_group(group_id)
    producer.send_as_1(topic).commit_offsets(group_id, topic, {0: 4})
    producer.end_as_1(commits=False)
    me = producer.identity
    asked = [
        ("verify", ask_of_partitions(producer.id, me, topic, 0), BETWEEN_BROKERS),
        ("add", add_partitions(producer.id, me, topic, 0), 3),
        ("verify, added", ask_of_partitions(producer.id, me, topic, 0, 1), BETWEEN_BROKERS),
        ("add offsets", add_offsets(producer.id, me, group_id), 4),
    ]
    for label, request, version in asked:
        if version != BETWEEN_BROKERS:
            talk.ask(label, request, version)
        talk.note_settled(f"{label}: state", producer.id)
    data = transactional_batch(me, 1)
    talk.ask("begun as 1, v12", producer.request(topic, data, 2), PRODUCE_2)
    talk.note_settled("begun as 1, v12: state", producer.id)
    producer.ask_end("begun as 1, ended as 2", me)
    talk.note_values("records", producer)
    talk.note_log("log", topic)
    talk.note_producers("producers", topic, 0, 1, 2)


def markers_by_hand(talk: TalkOfVersion2) -> None:
    """WriteTxnMarkers 2: with version 2 the epoch of a marker is a later one."""
    topic = talk.create("t", 8)
    producer = talk.producer()
    producer.init().init()
    producer_id, epoch = producer.identity
    for partition, (is_open, version) in enumerate(
        [(is_open, version) for is_open in (True, False) for version in (0, 1, 2, 3)]
    ):
        if is_open:
            producer.send(topic, partition=partition)
        for after in (-1, 0, 1, 1, 0, 2):
            label = f"v{version} {partition} epoch {after:+}"
            request = write_markers((producer_id, epoch + after), topic, partition)
            request.markers[0].transaction_version = version
            answer = talk.exchange(request, MARKERS_2)
            count = sum(known.startswith(label) for known in talk.answers)
            talk.note(f"{label} {count}", talk.plain(answer, MARKERS_2))
    talk.note_producers("producers", topic, *range(8))


def ids_by_pattern(talk: TalkOfVersion2) -> None:
    """ListTransactions 2 with regular expressions (KIP-1152)."""
    for stem in ("a1", "a2", "b1", "B.1"):
        talk.producer(stem).init()
    prefix = talk.topic_prefix
    for pattern in (
        f"{prefix}-a.*",
        f"{prefix}-a",
        "a1",
        f"{prefix}-[ab]1",
        f"(?i){prefix}-b.1",
        f"{prefix}-B\\.1",
        f"^{prefix}-b1$",
        "(",
        "[",
        "*",
        "(?=a)",
        "a{2000}",
    ):
        asked = ListTransactionsRequest(transactional_id_pattern=pattern)
        talk.ask(pattern, asked, LIST_2)
    for nothing in ("", None):
        asked = ListTransactionsRequest(transactional_id_pattern=nothing)
        answer = talk.exchange(asked, LIST_2)
        found = [each.transactional_id for each in answer.transaction_states]
        talk.note(repr(nothing), sorted(name for name in found if name.startswith(prefix)))


# Over a kill.


def _worn(talk: TalkOfVersion2, stem: str) -> Version2:
    """An id whose epochs are almost exhausted: its state is written as a coordinator would."""
    producer = talk.producer(stem)
    producer.init()
    value = TransactionLogValue(
        producer_id=producer.identity[0],
        producer_epoch=WORN_EPOCH,
        transaction_timeout_ms=60_000,
        transaction_status=0,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=1,
        transaction_start_timestamp_ms=-1,
        previous_producer_id=producer.identity[0],
        client_transaction_version=2,
    )
    record = TransactionRecord(producer.id, value, version=1)
    data = build_batch([Record(0, 1, *encode_record(record))])
    for partition in range(TRANSACTION_PARTITIONS):  # one is that of the id
        request = produce_request("__transaction_state", {partition: data}, acks=1)
        talk.exchange_as(ADMIN, request, PRODUCE_LAST)
    producer.identity = producer.identity[0], WORN_EPOCH
    return producer


def epochs_exhausted(talk: TalkOfVersion2) -> None:
    """Every state is there after kill -9; and after the last epoch comes another producer id."""
    topic = talk.create("t")
    begun = {
        f"{bring.__name__}, {word}": bring(talk, f"{bring.__name__}-{word}")
        for bring in STATES[1:]
        for word in ("commit", "abort")
    }
    worn = {word: _worn(talk, f"worn-{word}") for word in ("commit", "abort", "nothing", "init")}
    talk.restart_transactions(talk.server.kill)
    for label, producer in begun.items():
        talk.note(f"{label}: found", talk.plain(talk.described(producer.id), 0))
        commits = label.endswith("commit")
        producer.ask_end(f"{label}: again", producer.old, commits=commits)
        producer.ask_end(f"{label}: goes on", commits=commits)
    for word, producer in worn.items():
        producer.send(topic)
        if word != "init":
            producer.end()
            last = producer.identity
            if word != "nothing":
                producer.send(topic)
            producer.ask_end(f"{word}: the last epoch", commits=word == "commit")
            producer.ask_end(f"{word}: again", last, commits=word == "commit")
            producer.ask_end(f"{word}: the opposite", last, commits=word != "commit")
            producer.ask_end(f"{word}: the one before", producer.old, commits=word == "commit")
            producer.ask_init(f"{word}: claimed", last)
        else:
            producer.end()
            producer.send(topic)
            answer = talk.exchange(init_producer(producer.id), INIT_LAST)
            assert answer.error_code == CONCURRENT_TRANSACTIONS
            talk.wait_for(producer.id, "CompleteAbort")
            talk.name_producer(talk.described(producer.id).producer_id, producer.id)
            talk.note_settled("init: aborted", producer.id)
            producer.ask_init("init: again")
        talk.note_values(word, producer)
    talk.note_log("log", topic)
    talk.note_producers("producers", topic)


CONVERSATIONS: tuple[Conversation, ...] = (
    features,
    end_in_every_state,
    end_as_an_older_client,
    ends_repeated,
    produce_in_every_state,
    commit_offsets_in_every_state,
    produce_oddities,
    fenced_by_another,
    timed_out,
    versions_mixed,
    markers_by_hand,
    ids_by_pattern,
)
KILLED: tuple[Conversation, ...] = (epochs_exhausted,)
