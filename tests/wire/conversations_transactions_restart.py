"""What transactions leave on disk, and what brokers make of it when they start again."""

import struct
from functools import partial
from typing import Final

from odradek.protocol.messages.k02_list_offsets import ListOffsetsPartition
from odradek.protocol.records import Record, build_batch, iter_batches, iter_records
from odradek.protocol.transaction_records import (
    TransactionLogValue,
    TransactionRecord,
    decode_record,
    encode_record,
)
from tests.broker.transaction_requests import add_partitions, end, init_producer
from tests.support.messages import RECORDS_BYTES_MAX, produce_request
from tests.support.waiting import until
from tests.wire.conversations_offsets import commit, fetch, position
from tests.wire.conversations_read import offsets
from tests.wire.conversations_transactions import STATES, Conversation
from tests.wire.talk import Plain, batches, shown_time
from tests.wire.transaction_talk import (
    ADD_LAST,
    END_LAST,
    INIT_LAST,
    PRODUCE_LAST,
    Transactional,
    TransactionTalk,
)

ADMIN: Final = "__admin_client"
"""By this client id brokers take records for internal topics."""
COMMIT_OFFSETS_LAST: Final = 8
TXN_INDEX_ENTRY: Final = struct.Struct(">hqqqq")
STATE_TOPIC, OFFSETS_TOPIC = "__transaction_state", "__consumer_offsets"
KEY: Final = encode_record(TransactionRecord("any", None))[0]
WORN_EPOCH: Final = (1 << 15) - 4
ID_NOT_FOUND: Final = 105


# Files, byte by byte but for ids and times.


def _note_data(talk: TransactionTalk, label: str, topic: str, partitions: int) -> None:
    """The segments and the transaction indexes of a topic."""
    for partition in range(partitions):
        directory = talk.server.data_dir / f"{topic}-{partition}"
        for path in sorted(directory.glob("*.log")):
            talk.note(f"{label}: {partition}/{path.name}", batches(path.read_bytes()))
        for path in sorted(directory.glob("*.txnindex")):
            entries = TXN_INDEX_ENTRY.iter_unpack(path.read_bytes())
            shown: Plain = [[version, *rest] for version, _, *rest in entries]
            talk.note(f"{label}: {partition}/{path.name}", shown)


def _note_internal(talk: TransactionTalk, label: str, topic: str) -> None:
    """The batches of an internal topic that concern this conversation, of each partition."""
    of_states = topic == STATE_TOPIC
    for directory in sorted(talk.server.data_dir.glob(f"{topic}-*")):
        found: list[Plain] = []
        for path in sorted(directory.glob("*.log")):
            view = memoryview(path.read_bytes())
            for start, header in iter_batches(view):
                body = view[start : start + header.size_bytes]
                records = list(iter_records(body, header, size_bytes_max=RECORDS_BYTES_MAX))
                if talk.names(header.producer_id) or any(
                    talk.topic_prefix.encode() in bytes(record.key or b"") for record in records
                ):
                    shown = dict(header._asdict())
                    for name in ("base_offset", "crc", "producer_id"):
                        del shown[name]
                    for name in ("base_timestamp", "max_timestamp"):
                        shown[name] = shown_time(shown[name])
                    # Kafka takes offsets out of a hash map.
                    kept = sorted((_shown(r, of_states) for r in records), key=repr)
                    found.append({**shown, "records": kept})
        talk.note(f"{label}: {directory.name}", found)


def _in_order(value: bytes) -> bytes:
    """A transaction's state with its topics in order: Kafka keeps them in a hash map."""
    found = decode_record(KEY, value)
    assert found is not None
    assert encode_record(found)[1] == value
    if found.value is not None and found.value.transaction_partitions:
        found.value.transaction_partitions.sort(key=lambda topic: topic.topic)
    return encode_record(found)[1] or b""


def _shown(record: Record, of_states: bool) -> Plain:
    """Key and value; ids and times as zeros."""
    key = bytes(record.key or b"")
    is_marker = len(key) == 4
    value = None if record.value is None else bytearray(record.value)
    if value is not None and not is_marker:
        if of_states:
            value[:] = _in_order(bytes(value))
        if of_states:
            value[2:10] = bytes(8)
        for begin in (-16, -8) if of_states else (-8,):
            last = begin + 8 or len(value)
            if value[begin:last] != b"\xff" * 8:  # there is none
                value[begin:last] = bytes(8)
    return {"key": key, "value": None if value is None else bytes(value)}


def files_of_transactions(talk: TransactionTalk) -> None:
    """Commits, aborts, offsets, a timeout and a fencing: then all segments."""
    topic = talk.create("t", 2)
    a, group_id = talk.producer("a").init(), talk.group()
    a.add(topic, 0).add(topic, 1).send(topic, b"a0", b"a1").send(topic, b"a2", partition=1).end()
    a.add(topic, 0, 1).send(topic, b"a3").end(commits=False)
    a.init().add(topic, 1).add_group(group_id).send(topic, b"a4", partition=1)
    a.commit_offsets(group_id, topic, {0: 4, 1: 1})
    talk.exchange(commit(group_id, topic, position(0, 20)), COMMIT_OFFSETS_LAST)
    a.end()
    slow = talk.producer("slow").init(timeout_ms=200).add(topic, 0).send(topic, b"b0")
    talk.wait_for(slow.id, "CompleteAbort")
    fenced = talk.producer("fenced").init().add(topic, 0).add_group(group_id).send(topic, b"c0")
    fenced.commit_offsets(group_id, topic, {0: 99})
    talk.exchange(init_producer(fenced.id), INIT_LAST)
    talk.wait_for(fenced.id, "CompleteAbort")
    fenced.init()
    talk.producer("open").init().add(topic, 0).send(topic, b"d0")
    talk.producer("idle").init()
    talk.close()
    talk.server.stop()
    _note_data(talk, "data", topic, 2)
    _note_internal(talk, "states", STATE_TOPIC)
    _note_internal(talk, "offsets", OFFSETS_TOPIC)


def _worn(talk: TransactionTalk, stem: str) -> Transactional:
    """An id whose epochs are almost exhausted: its state is written as a coordinator would."""
    producer = talk.producer(stem).init()
    producer_id, _ = producer.identity
    value = TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=WORN_EPOCH,
        transaction_timeout_ms=60_000,
        transaction_status=0,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=1,
        transaction_start_timestamp_ms=-1,
    )
    data = build_batch([Record(0, 1, *encode_record(TransactionRecord(producer.id, value)))])
    for partition in range(4):  # one of them is that of the id; to others it is a stranger
        request = produce_request(STATE_TOPIC, {partition: data}, acks=1)
        talk.exchange_as(ADMIN, request, PRODUCE_LAST)
    return producer


def states_after_a_kill(talk: TransactionTalk) -> None:
    """Every state is there again after kill -9, and goes on."""
    topic = talk.create("t", 2)
    begun = {
        f"{bring.__name__} {how}": bring(talk, f"{bring.__name__}-{how}")
        for bring in STATES[1:]
        for how in ("ends", "aborts", "adds", "begins", "claims")
    }
    begun["offsets"] = talk.producer("offsets").init().add_group(talk.group())
    begun["offsets"].commit_offsets(talk.group(), topic, {0: 10})
    claims, others = _worn(talk, "claims"), _worn(talk, "others")
    talk.restart_transactions(talk.server.kill)
    for label, producer in begun.items():
        talk.note(f"{label}: found", talk.plain(talk.described(producer.id), 0))
    talk.note_log("found", topic)
    talk.ask("offsets found", fetch(talk.group(), 9, None, require_stable=True), 9)
    for label, producer in begun.items():
        me = producer.identity
        request, version = {
            "ends": (end(producer.id, me), END_LAST),
            "aborts": (end(producer.id, me, commits=False), END_LAST),
            "adds": (add_partitions(producer.id, me, topic, 1), ADD_LAST),
            "begins": (init_producer(producer.id), INIT_LAST),
            "claims": (init_producer(producer.id, me), INIT_LAST),
            "offsets": (end(producer.id, me), END_LAST),
        }[label.rpartition(" ")[2]]
        talk.ask(f"{label}: goes on", request, version)
        talk.note_settled(f"{label}: after that", producer.id)
    talk.release()
    for label, producer in begun.items():
        if label.startswith("prepare"):
            talk.wait_for(producer.id, "CompleteCommit", "CompleteAbort")
            talk.note_settled(f"{label}: released", producer.id)
    latest = offsets(topic, ListOffsetsPartition(partition_index=0, timestamp=-1))
    talk.ask("end", latest, 7)
    talk.ask("offsets at the end", fetch(talk.group(), 9, None, require_stable=True), 9)
    _exhaust_epochs(talk, topic, claims, others)


def _exhaust_epochs(
    talk: TransactionTalk, topic: str, claims: Transactional, others: Transactional
) -> None:
    """The last epochs of a producer id, and the id after it (KIP-360)."""
    old = claims.identity[0], WORN_EPOCH
    talk.note_settled("found", claims.id)
    claims.ask_init("claimed", old)
    before = claims.identity
    claims.ask_init("claimed again", old)
    claims.ask_init("the last epoch", before)
    last = claims.identity
    talk.note_settled("the last epoch: state", claims.id)
    claims.ask_init("the last epoch, again", before)
    claims.add(topic).send(topic).end()
    claims.ask_init("a new id", last)
    talk.note_settled("a new id: state", claims.id)
    claims.ask_init("a new id, again", last)
    claims.ask_init("the old epoch", before)
    claims.add(topic).send(topic).end()

    others.init().init().add(topic).send(topic)
    last = others.identity
    others.ask_init("another, while open")
    talk.wait_for(others.id, "CompleteAbort")
    talk.note_settled("aborted", others.id)
    others.ask_init("the fenced one", last)
    others.ask_init("anybody")
    talk.note_settled("anybody: state", others.id)
    others.ask_init("the fenced one, later", last)
    others.add(topic).send(topic).end()
    talk.note_log("log", topic)
    talk.note_producers("producers", topic)


def _is_forgotten(talk: TransactionTalk, producer: Transactional) -> bool:
    return bool(talk.described(producer.id).error_code == ID_NOT_FOUND)


def ids_expire(talk: TransactionTalk) -> None:
    """An id that is not used is forgotten, unless its transaction is open."""
    topic = talk.create("t")
    done = talk.producer("done").init().add(topic).send(topic)
    is_open = talk.producer("open").init().add(topic).send(topic)
    done.end()
    idle = talk.producer("idle").init()
    for producer in (done, idle):
        until(partial(_is_forgotten, talk, producer))
    me = done.identity
    talk.ask("add", add_partitions(done.id, me, topic, 0), ADD_LAST)
    talk.ask("end", end(done.id, me), END_LAST)
    done.ask_init("claim", me)
    done.ask_init("anew")
    talk.note_settled("open one", is_open.id)
    talk.note_states_on_disk("records")
    _note_internal(talk, "batches", STATE_TOPIC)


FILES: tuple[Conversation, ...] = (
    states_after_a_kill,
    files_of_transactions,  # it stops the broker
)
EXPIRING: tuple[Conversation, ...] = (ids_expire,)
