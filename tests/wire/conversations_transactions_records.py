"""Records in transactions: who may write them, who sees them, and what ends them."""

from typing import Any

from odradek.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest
from odradek.protocol.messages.k02_list_offsets import ListOffsetsPartition
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.k27_write_txn_markers import WriteTxnMarkersRequest
from tests.broker.transaction_requests import (
    Identity,
    add_offsets,
    add_partitions,
    end,
    write_markers,
)
from tests.support.messages import delete_records, fetch_request, produce_request
from tests.wire.conversations_read import offsets
from tests.wire.conversations_transactions import (
    COMMIT,
    END,
    OFFSETS,
    PRODUCE,
    PRODUCER_VERSION_LAST,
    Conversation,
)
from tests.wire.talk import TIMESTAMP, batch, versions
from tests.wire.transaction_talk import (
    ADD_LAST,
    FETCH_LAST,
    PRODUCE_LAST,
    Transactional,
    TransactionTalk,
    commit_request,
    transactional_batch,
)

FETCH, LIST_OFFSETS = 1, 2
DELETE_RECORDS_LAST, DELETE_TOPICS_LAST, MARKERS_LAST = 2, 5, 1


def read_committed(talk: TransactionTalk) -> None:
    """What readers of committed records see of two transactions and records outside of them."""
    topic = talk.create("t")
    a, b = talk.producer("a").init(), talk.producer("b").init()

    def look(label: str) -> None:
        for version in (4, 7, 11, FETCH_LAST):
            for offset in (0, 2, 5):
                asked = fetch_request(topic, offset, isolation_level=1)
                talk.ask(f"{label}: fetch v{version} from {offset}", asked, version)
        talk.ask(f"{label}: all", fetch_request(topic, 0), FETCH_LAST)
        for version in versions(LIST_OFFSETS, 2):
            for stamp in (-1, -2, -3, TIMESTAMP, TIMESTAMP + 1) if version > 6 else (-1, -2):
                wanted = ListOffsetsPartition(partition_index=0, timestamp=stamp)
                listed = offsets(topic, wanted)
                listed.isolation_level = 1
                talk.ask(f"{label}: list v{version} {stamp}", listed, version)
        talk.note_producers(f"{label}: producers", topic)

    a.add(topic).send(topic, b"a0", b"a1")
    look("one open")
    talk.exchange(produce_request(topic, {0: batch(b"plain")}, acks=1), PRODUCE_LAST)
    b.add(topic).send(topic, b"b0")
    look("two open")
    a.end(commits=False)
    look("the first aborted")
    a.add(topic).send(topic, b"a2")
    b.end(commits=True)
    look("the second committed")
    a.end(commits=False)
    look("all ended")


def produce_in_transactions(talk: TransactionTalk) -> None:
    """A transaction in every version of Produce; what does not belong into one."""
    topic = talk.create("t", 3)
    for version in versions(PRODUCE, 3):
        producer = talk.producer(f"v{version}").init().add(topic, 0)
        me = producer.identity
        other = talk.producer(f"other{version}").init().add(topic, 0)
        data = producer.batch(topic, b"a", b"b")
        plain = batch(b"p", producer_id=me[0], producer_epoch=me[1], base_sequence=2)
        control = batch(
            b"c",
            producer_id=me[0],
            producer_epoch=me[1],
            base_sequence=2,
            is_transactional=True,
            is_control=True,
        )
        nameless = produce_request(topic, {0: data}, acks=1)
        empty = producer.request(topic, data)
        empty.transactional_id = ""
        wrong = producer.request(topic, data)
        wrong.transactional_id = other.id
        two = producer.request(topic, transactional_batch(me, 0))
        (partitions_of_two,) = two.topic_data
        others = transactional_batch(other.identity, 0)
        partitions_of_two.partition_data.append(PartitionProduceData(index=1, records=others))
        for label, request in (
            ("no transactional id", nameless),
            ("empty transactional id", empty),
            ("another transactional id", wrong),
            ("two producers", two),
            ("itself", producer.request(topic, data)),
            ("its duplicate", producer.request(topic, data)),
            ("a plain batch, no id", produce_request(topic, {0: plain}, acks=1)),
            ("a plain batch", producer.request(topic, plain)),
            ("a control batch", producer.request(topic, control)),
            ("another partition", producer.request(topic, transactional_batch(me, 0), 2)),
            ("no id, another partition", _nameless(topic, transactional_batch(me, 0), 2)),
            ("a plain batch in another partition", _nameless(topic, _plain(me, 0), 2)),
        ):
            talk.ask(f"v{version} {label}", request, version)
        producer.end(commits=version % 2 == 0)
        talk.ask(f"v{version} after the end", producer.request(topic, _next(me, 2)), version)
        talk.ask(f"v{version} plain after the end", _nameless(topic, _plain(me, 2), 0), version)
    for partition in range(3):
        talk.note_log(f"log {partition}", topic, partition)
    talk.note_producers("producers", topic, 0, 1, 2)


def _nameless(topic: str, data: bytearray, partition: int) -> ProduceRequest:
    return produce_request(topic, {partition: data}, acks=1)


def _plain(identity: Identity, sequence: int) -> bytearray:
    return batch(b"p", producer_id=identity[0], producer_epoch=identity[1], base_sequence=sequence)


def _next(identity: Identity, sequence: int) -> bytearray:
    return transactional_batch(identity, sequence)


def sequences_in_transactions(talk: TransactionTalk) -> None:
    """Sequences continue in the next transaction, and begin anew with each epoch."""
    topic = talk.create("t")
    producer = talk.producer().init().add(topic)
    first = producer.identity

    def send(label: str, identity: Identity, sequence: int, count: int = 1) -> None:
        data = transactional_batch(identity, sequence, *[b"v"] * count)
        talk.ask(label, producer.request(topic, data), PRODUCE_LAST)

    send("begins with 3", first, 3)
    send("goes on", first, 4, 2)
    send("its duplicate", first, 4, 2)
    send("part of it", first, 5)
    send("gap", first, 9)
    producer.end()
    send("a duplicate after the end", first, 4, 2)
    producer.add(topic)
    send("a gap after the end", first, 9)
    send("next after the end", first, 6)
    producer.end(commits=False)
    producer.init()
    second = producer.identity
    producer.add(topic)
    send("the old epoch", first, 7)
    send("the new epoch with a gap", second, 1)
    send("the new epoch", second, 0)
    talk.note_producers("producers", topic)
    producer.end()
    talk.note_log("log", topic)
    talk.note_producers("producers at the end", topic)


def an_epoch_to_come(talk: TransactionTalk) -> None:
    """A batch of an epoch that nobody has, while a transaction is open."""
    topic = talk.create("t")
    producer = talk.producer().init().add(topic).send(topic)
    later = producer.identity[0], producer.identity[1] + 1
    request = producer.request(topic, transactional_batch(later, 0))
    talk.ask("batch", request, PRODUCE_LAST)
    talk.note_producers("producers", topic)


def _requests_of(
    talk: TransactionTalk, producer: Transactional, identity: Identity, topic: str
) -> list[tuple[str, Any, range]]:
    data = transactional_batch(identity, 1)
    adding = range(PRODUCER_VERSION_LAST + 1)
    return [
        ("produce", producer.request(topic, data), versions(PRODUCE, 3)),
        ("add", add_partitions(producer.id, identity, topic, 0), adding),
        ("add another", add_partitions(producer.id, identity, topic, 1), adding),
        ("add offsets", add_offsets(producer.id, identity, talk.group()), versions(OFFSETS)),
        ("commit", end(producer.id, identity, commits=True), versions(END)),
        ("abort", end(producer.id, identity, commits=False), versions(END)),
        (
            "offsets",
            commit_request(producer, talk.group(), topic, identity=identity),
            versions(COMMIT),
        ),
    ]


def fenced_by_another(talk: TransactionTalk) -> None:
    """A second producer comes while the first one has an open transaction."""
    topic = talk.create("t", 2)
    producer = talk.producer().init()
    producer.add(topic, 0).send(topic, b"a").add_group(talk.group())
    producer.commit_offsets(talk.group(), topic, {0: 10})
    first = producer.identity
    producer.ask_init("another")
    talk.wait_for(producer.id, "CompleteAbort")
    talk.note_settled("aborted", producer.id)
    for label, request, its_versions in _requests_of(talk, producer, first, topic):
        for version in its_versions:
            talk.ask(f"aborted: {label} v{version}", request, version)
    talk.note_settled("after all that", producer.id)
    producer.ask_init("another again")
    for label, request, its_versions in _requests_of(talk, producer, first, topic):
        for version in its_versions:
            talk.ask(f"replaced: {label} v{version}", request, version)
    producer.add(topic, 0).send(topic, b"b")
    for label, request, its_versions in _requests_of(talk, producer, first, topic):
        talk.ask(f"writing: {label}", request, its_versions[-1])
    producer.end()
    talk.note_log("log", topic)
    talk.note_producers("producers", topic, 0, 1)


def fenced_while_aborting(talk: TransactionTalk) -> None:
    """The same, while the abort cannot be finished."""
    topic, stuck = talk.create("t", 2), talk.stuck()
    producer = talk.producer().init().add(topic, 0).send(topic, b"a").add(stuck)
    first = producer.identity
    for number in range(3):
        producer.ask_init(f"another {number}")
        talk.note_settled(f"another {number}: state", producer.id)
    later = first[0], first[1] + 1
    for who, identity in (("old", first), ("its successor", later)):
        for label, request, its_versions in _requests_of(talk, producer, identity, topic):
            for version in (its_versions[0], its_versions[-1]):
                talk.ask(f"{who} {label} v{version}", request, version)
    talk.note_log("log", topic)
    talk.release()
    talk.wait_for(producer.id, "CompleteAbort")
    talk.note_settled("released", producer.id)
    producer.ask_init("at last")
    talk.note_settled("at last: state", producer.id)


def timed_out(talk: TransactionTalk) -> None:
    """A transaction that took too long is aborted; its producer may go on with a new epoch."""
    topic = talk.create("t", 2)
    producer = talk.producer().init(timeout_ms=200)
    producer.add(topic, 0).send(topic, b"a")
    first = producer.identity
    talk.wait_for(producer.id, "CompleteAbort")
    talk.note_settled("aborted", producer.id)
    talk.note_log("log", topic)
    for label, request, its_versions in _requests_of(talk, producer, first, topic):
        for version in (its_versions[0], its_versions[-1]):
            talk.ask(f"{label} v{version}", request, version)
    producer.ask_init("claim", first, timeout_ms=60_000)
    talk.note_settled("claimed", producer.id)
    talk.note_producers("producers", topic, 0, 1)


# Markers.


def markers_by_hand(talk: TransactionTalk) -> None:
    """WriteTxnMarkers, as admin tools send it."""
    topic = talk.create("t", 8)
    for version in versions(27):
        producer = talk.producer(f"v{version}").init()
        me = producer.identity
        later, far = (me[0], me[1] + 1), (me[0] + 1_000_000 + version, 0)
        producer.add(topic, 0, 1).send(topic, b"a").send(topic, b"b", partition=1)

        def mark(label: str, request: WriteTxnMarkersRequest, version: int = version) -> None:
            talk.ask(f"v{version} {label}", request, version)

        mark("unknown topic", write_markers(me, talk.topic("absent"), 0))
        mark("unknown partition", write_markers(me, topic, 99, 0, commits=False))
        mark("nothing is open", write_markers(me, topic, 2))
        mark("unknown producer", write_markers(far, topic, 3))
        mark("epoch -1", write_markers((far[0], -1), topic, 3))
        mark("coordinator -1", write_markers(far, topic, 3, coordinator_epoch=-1))
        mark("nobody", write_markers((-1, -1), topic, 4))
        mark("epoch to come", write_markers(later, topic, 1, commits=False))
        mark("older epoch", write_markers(me, topic, 1))
        mark("coordinator 5", write_markers(later, topic, 1, coordinator_epoch=5))
        mark("coordinator 4", write_markers(later, topic, 1, coordinator_epoch=4))
        mark("the same again", write_markers(later, topic, 1, coordinator_epoch=5))
        mark("no partitions", write_markers(me, topic))
        mark("nothing", WriteTxnMarkersRequest(markers=[]))
        two = write_markers(me, topic, 5, 6)
        two.markers += write_markers(far, topic, 5, commits=False).markers
        mark("two", two)
        mark("stuck", write_markers(me, talk.stuck(), 0))
        mark("stuck, unknown", write_markers(me, talk.stuck(), 0, 1))
        again = producer.request(topic, producer.batch(topic, b"c"))
        talk.ask(f"v{version} a batch after the marker", again, PRODUCE_LAST)
        for partition in range(8):
            talk.note_producers(f"v{version} producers {partition}", topic, partition)
        talk.note_settled(f"v{version} state", producer.id)
    for partition in range(8):
        talk.note_log(f"log {partition}", topic, partition)
    talk.release()


def hanging_and_aborted(talk: TransactionTalk) -> None:
    """A transaction that the coordinator does not know is ended by hand."""
    topic = talk.create("t")
    producer = talk.producer().init().add(topic).send(topic, b"a").end()
    talk.exchange(
        write_markers(producer.identity, topic, 0, commits=False, coordinator_epoch=0), MARKERS_LAST
    )
    talk.note_log("a marker for nothing", topic)
    producer.add(topic).send(topic, b"b")
    request = write_markers(producer.identity, topic, 0, commits=False)
    talk.ask("by hand", request, MARKERS_LAST)
    talk.note_log("aborted by hand", topic)
    talk.note_settled("its coordinator", producer.id)
    producer.end()
    talk.note_log("committed later", topic)
    talk.note_producers("producers", topic)


# Deletions.


def delete_records_of_a_transaction(talk: TransactionTalk) -> None:
    """DeleteRecords while a transaction is open, and after an abort."""
    topic = talk.create("t")
    producer = talk.producer().init().add(topic)
    producer.send(topic, b"a", b"b").send(topic, b"c").send(topic, b"d")
    for offset in (1, 2, 3, -1, 9):
        talk.ask(f"up to {offset}", delete_records((topic, 0, offset)), DELETE_RECORDS_LAST)
        talk.ask(f"up to {offset}: rest", fetch_request(topic, 4), FETCH_LAST)
        talk.note_producers(f"up to {offset}: producers", topic)
    producer.end(commits=False)
    talk.ask("all of it", fetch_request(topic, 4, isolation_level=1), FETCH_LAST)
    producer.add(topic).send(topic, b"e")
    talk.ask("end", delete_records((topic, 0, -1)), DELETE_RECORDS_LAST)
    latest = offsets(topic, ListOffsetsPartition(partition_index=0, timestamp=-1))
    latest.isolation_level = 1
    talk.ask("end, listed", latest, 7)
    producer.end()
    talk.ask("end, listed after the commit", latest, 7)


def delete_topics_of_a_transaction(talk: TransactionTalk) -> None:
    """A topic goes while a transaction is open in it."""
    for commits in (True, False):
        gone, kept = talk.create(f"gone-{commits}", 2), talk.create(f"kept-{commits}")
        producer = talk.producer(f"{commits}").init()
        producer.add(gone, 0, 1).add(kept, 0).send(gone, b"a").send(kept, b"b")
        talk.ask(
            f"{commits}: delete",
            DeleteTopicsRequest(topic_names=[gone], timeout_ms=10_000),
            DELETE_TOPICS_LAST,
        )
        talk.note_settled(f"{commits}: deleted", producer.id)
        written = producer.request(gone, transactional_batch(producer.identity, 1))
        talk.ask(f"{commits}: produce", written, PRODUCE_LAST)
        added = add_partitions(producer.id, producer.identity, gone, 0)
        talk.ask(f"{commits}: add", added, ADD_LAST)
        producer.end(commits=commits)
        talk.note_settled(f"{commits}: ended", producer.id)
        talk.note_log(f"{commits}: the other topic", kept)
        producer.add(kept).send(kept, b"c").end()
        talk.note_settled(f"{commits}: goes on", producer.id)


CONVERSATIONS: tuple[Conversation, ...] = (
    read_committed,
    produce_in_transactions,
    sequences_in_transactions,
    an_epoch_to_come,
    fenced_by_another,
    fenced_while_aborting,
    timed_out,
    markers_by_hand,
    hanging_and_aborted,
    delete_records_of_a_transaction,
    delete_topics_of_a_transaction,
)
