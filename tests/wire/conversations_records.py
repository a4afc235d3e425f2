"""What is said about deleting records, and what Fetch and ListOffsets say afterwards."""

from typing import Final

from odradek.protocol.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.messages import fetch_request, list_offsets
from tests.wire.admin_talk import Conversation, eventually, produce
from tests.wire.talk import Plain, Talk, versions

DELETE_RECORDS: Final = 21
LIST_OFFSETS_VERSION, FETCH_VERSION = 7, 11
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
TO_THE_END: Final = -1

Asked = tuple[int, int]


def _delete(
    talk: Talk,
    label: str,
    *topics: tuple[str, list[Asked]],
    version: int = 2,
    timeout_ms: int = 10_000,
) -> None:
    """Ask for (partition, offset) of topics; the answer is noted."""
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(partition_index=partition, offset=offset)
                    for partition, offset in asked
                ],
            )
            for name, asked in topics
        ],
        timeout_ms=timeout_ms,
    )
    talk.ask(label, request, version)


def _see(talk: Talk, label: str, topic: str) -> None:
    """Note what is left of partition 0."""
    for name, timestamp in (("earliest", EARLIEST), ("latest", LATEST), ("max", MAX_TIMESTAMP)):
        talk.ask(f"{label}: {name}", list_offsets(topic, timestamp), LIST_OFFSETS_VERSION)
    first, last = (_offset(talk, topic, timestamp) for timestamp in (EARLIEST, LATEST))
    for offset in range(7):
        if first <= offset < last:  # for a moment, Kafka may deny what was just written
            _wait_until_there(talk, topic, offset)
        talk.note(f"{label}: fetch from {offset}", _fetched(talk, topic, offset))


def _wait_until_there(talk: Talk, topic: str, offset: int) -> None:
    eventually(lambda: _fetched(talk, topic, offset)[0] == 0)


def _offset(talk: Talk, topic: str, timestamp: int) -> int:
    answer = talk.exchange(list_offsets(topic, timestamp), LIST_OFFSETS_VERSION)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def _fetched(talk: Talk, topic: str, offset: int) -> list[Plain]:
    """Code, log start offset and high watermark."""
    answer = talk.exchange(fetch_request(topic, offset), FETCH_VERSION)
    partition = answer.responses[0].partitions[0]
    return [partition.error_code, partition.log_start_offset, partition.high_watermark]


def _filled(talk: Talk, stem: str, cleanup_policy: str = "delete") -> str:
    """A topic with records 0, 1 and 2 in batches of their own, and 3, 4, 5 in one."""
    name = talk.create(stem, cleanup_policy=cleanup_policy)
    codes = [produce(talk, name, value) for value in (b"a", b"b", b"c")]
    assert [*codes, produce(talk, name, b"d", b"e", b"f")] == [0] * 4
    return name


def delete_records_some(talk: Talk) -> None:
    """Up to an offset where a batch begins."""
    for version in versions(DELETE_RECORDS):
        name = _filled(talk, f"t{version}")
        _delete(talk, f"v{version}", (name, [(0, 2)]), version=version)
        _see(talk, f"v{version}", name)


def delete_records_within_a_batch(talk: Talk) -> None:
    """Up to an offset in the middle of a batch, which is still given as a whole."""
    name = _filled(talk, "t")
    _delete(talk, "deleted", (name, [(0, 4)]))
    _see(talk, "after", name)
    talk.ask("the batch", fetch_request(name, 4), FETCH_VERSION)
    talk.ask("by time", list_offsets(name, 0), LIST_OFFSETS_VERSION)


def delete_records_all(talk: Talk) -> None:
    """Up to the high watermark, by its number and as -1; then more is written."""
    for version in versions(DELETE_RECORDS):
        for end in (TO_THE_END, 6):
            label = f"v{version} {end}"
            name = _filled(talk, f"t{version}-{end}")
            _delete(talk, label, (name, [(0, end)]), version=version)
            _see(talk, label, name)
            talk.note(f"{label} more", produce(talk, name, b"g"))
            _see(talk, f"{label} more", name)


def delete_records_none(talk: Talk) -> None:
    """Offset 0, and what is deleted already."""
    name = _filled(talk, "t")
    for number, offset in enumerate((0, 3, 0, 1, 3, 3)):
        _delete(talk, f"{number} up to {offset}", (name, [(0, offset)]))
    _see(talk, "after", name)


def delete_records_beyond_the_end(talk: Talk) -> None:
    """Offsets that are not there yet."""
    for version in versions(DELETE_RECORDS):
        name = _filled(talk, f"t{version}")
        for offset in (7, 100, 2**62, 2**63 - 1):
            _delete(talk, f"v{version} {offset}", (name, [(0, offset)]), version=version)
        _see(talk, f"v{version}", name)


def delete_records_negative(talk: Talk) -> None:
    """Offsets that are none."""
    for version in versions(DELETE_RECORDS):
        name = _filled(talk, f"t{version}")
        for offset in (-2, -100, -(2**63)):
            _delete(talk, f"v{version} {offset}", (name, [(0, offset)]), version=version)
        _see(talk, f"v{version}", name)


def delete_records_of_an_empty_partition(talk: Talk) -> None:
    """Nothing was ever written."""
    name = talk.create("t")
    for offset in (0, TO_THE_END, 1):
        _delete(talk, f"up to {offset}", (name, [(0, offset)]))
    _see(talk, "after", name)


def delete_records_of_compacted_topics(talk: Talk) -> None:
    """Only if their records may also be deleted."""
    compacted = _filled(talk, "compacted", cleanup_policy="compact")
    both = _filled(talk, "both", cleanup_policy="compact,delete")
    for label, name in (("compacted", compacted), ("both", both)):
        _delete(talk, label, (name, [(0, 2)]))
        _see(talk, label, name)


def delete_records_unknown(talk: Talk) -> None:
    """Topics and partitions that are not there, beside a good one."""
    for version in versions(DELETE_RECORDS):
        name = _filled(talk, f"t{version}")
        absent = talk.topic("absent")
        for label, topics in (
            ("partition", [(name, [(9, 1)])]),
            ("negative partition", [(name, [(-1, 1)])]),
            ("absent", [(absent, [(0, 1)])]),
            ("bad name", [("a b", [(0, 1)])]),
            ("empty name", [("", [(0, 1)])]),
            ("no partitions", [(name, [])]),
            ("absent, no partitions", [(absent, [])]),
            ("no topics", []),
            ("internal", [("__transaction_state", [(0, 1)])]),
            ("beside a good one", [(absent, [(0, 1)]), (name, [(0, 1), (9, 1)])]),
        ):
            _delete(talk, f"v{version} {label}", *topics, version=version)
        _see(talk, f"v{version}", name)


def delete_records_twice(talk: Talk) -> None:
    """The same partition twice in a request: the last offset counts."""
    name = _filled(talk, "t")
    _delete(talk, "partition twice", (name, [(0, 1), (0, 2)]))
    _delete(talk, "topic twice", (name, [(0, 3)]), (name, [(0, 2)]))
    _see(talk, "after", name)


def delete_records_without_time(talk: Talk) -> None:
    """Time limits that are over at once; with one broker there is nothing to wait for."""
    for timeout_ms in (0, -1, 2**31 - 1):
        name = _filled(talk, f"t{timeout_ms}")
        _delete(talk, f"{timeout_ms}", (name, [(0, 2)]), timeout_ms=timeout_ms)


def delete_records_then_produce_idempotently(talk: Talk) -> None:
    """Sequence numbers go on, though the batches that had them are gone."""
    name = talk.create("t")
    for number in range(3):
        if number == 2:
            _delete(talk, "deleted", (name, [(0, TO_THE_END)]))
        more = {"producer_id": 77, "producer_epoch": 0, "base_sequence": number}
        talk.note(f"sequence {number}", produce(talk, name, b"a", **more))
    again = {"producer_id": 77, "producer_epoch": 0, "base_sequence": 1}
    talk.note("sequence 1 again", produce(talk, name, b"a", **again))
    _see(talk, "after", name)


CONVERSATIONS: tuple[Conversation, ...] = (
    delete_records_some,
    delete_records_within_a_batch,
    delete_records_all,
    delete_records_none,
    delete_records_beyond_the_end,
    delete_records_negative,
    delete_records_of_an_empty_partition,
    delete_records_of_compacted_topics,
    delete_records_unknown,
    delete_records_twice,
    delete_records_without_time,
    delete_records_then_produce_idempotently,
)
