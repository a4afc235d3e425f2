"""Batches that are almost right: refused, or kept as they were sent; and what Apache Kafka says.

Odradek accepts no batch that Apache Kafka 3.9.2 refuses.
"""

import random
from collections import Counter
from functools import partial
from itertools import product
from typing import Final

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import PartitionProduceResponse
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.records import iter_records
from odradek.protocol.records.batch import (
    HEADER_SIZE_BYTES,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    check_crc,
    read_header,
)
from odradek.testing import Broker
from tests.kafka.apache import apache_kafka
from tests.seeds import Repeats, repeated
from tests.support.connections import RawConnection
from tests.support.messages import creatable, fetch_request, produce_request
from tests.support.waiting import until

from .batches import BODY_BYTES_MAX, almost_batch

TOPIC: Final = "almost"
PRODUCE_VERSION, FETCH_VERSION, CREATE_TOPICS_VERSION = 8, 11, 5
IN_A_TOPIC: Final = 1_000
LEADER_EPOCH: Final = slice(12, 16)
ATTRIBUTES: Final = 0x7F
"""Those that have a meaning."""
SETTINGS: Final = {
    "log.message.timestamp.after.max.ms": str((1 << 63) - 1),
    "log.retention.ms": "-1",
}
"""So that a changed timestamp is not the first thing that is wrong, and old records stay."""
REFUSALS: Final = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
STRICTER: Final = {
    ErrorCode.CORRUPT_MESSAGE,  # bytes after the compressed records; Kafka leaves them unread
    ErrorCode.INVALID_RECORD,  # deltas of uncompressed records, timestamps above 64 bits, a rest
    ErrorCode.INVALID_TIMESTAMP,  # so long ago that Kafka's difference to now overflows
}
"""What Odradek says of batches that Kafka accepts."""
OF_RECORDS: Final = {*STRICTER, ErrorCode.MESSAGE_TOO_LARGE}
OTHERWISE: Final = {
    *product(
        (
            ErrorCode.UNKNOWN_SERVER_ERROR,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        OF_RECORDS,
    ),
    (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD),
    (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE),
}
"""What Kafka and Odradek say otherwise: of most, as they have more than one mistake."""


class Partition:
    """A partition that only this test writes to."""

    def __init__(self, connection: RawConnection) -> None:
        self._connection = connection
        self._topics = 0
        self._topic = ""
        self.end = 0

    def renew(self) -> None:
        """Go on with another topic."""
        self._topics += 1
        self._topic = f"{TOPIC}-{self._topics}"
        self.end = 0
        asked = CreateTopicsRequest(topics=[creatable(self._topic)], timeout_ms=30_000)
        answer = self._connection.exchange(asked, CREATE_TOPICS_VERSION)
        assert answer.topics[0].error_code == 0, answer
        until(lambda: self.read(0) == b"")

    def write(self, batch: bytes) -> PartitionProduceResponse:
        """Produce one batch."""
        request = produce_request(self._topic, {0: batch})
        answer = self._connection.exchange(request, PRODUCE_VERSION)
        result: PartitionProduceResponse = answer.responses[0].partition_responses[0]
        return result

    def read(self, offset: int) -> bytes | None:
        """What follows an offset; None if it can't be read."""
        answer = self._connection.exchange(fetch_request(self._topic, offset), FETCH_VERSION)
        found = answer.responses[0].partitions[0]
        return bytes(found.records or b"") if found.error_code == 0 else None

    def take(self, batch: bytes) -> ErrorCode:
        """Produce one batch, and see that it is in the log as sent if it was accepted."""
        answer = self.write(batch)
        if answer.error_code == ErrorCode.NONE and not self._is_duplicate(batch, answer):
            assert answer.base_offset == self.end
            stored = self.read(self.end)
            assert stored is not None
            check_as_sent(batch, stored, self.end)
            self.end = read_header(stored).next_offset
        return ErrorCode(answer.error_code)

    def _is_duplicate(self, batch: bytes, answer: PartitionProduceResponse) -> bool:
        return answer.base_offset < self.end and read_header(batch).producer_id >= 0


def without_epoch(stored: bytes | None) -> bytes:
    """A batch without the epoch of its leader."""
    assert stored is not None
    return stored[: LEADER_EPOCH.start] + stored[LEADER_EPOCH.stop :]


def check_as_sent(batch: bytes, stored: bytes, offset: int) -> None:
    """A broker may change offset and epoch, and what is wrong of timestamps in the header."""
    sent, kept = read_header(batch), read_header(stored)
    assert kept.base_offset == offset
    check_crc(stored, kept)
    assert stored[HEADER_SIZE_BYTES:] == batch[HEADER_SIZE_BYTES : sent.size_bytes]
    if kept.max_timestamp != sent.max_timestamp:
        assert kept.attributes == sent.attributes & ATTRIBUTES & ~LOG_APPEND_TIME
    else:
        assert kept.attributes in (sent.attributes, sent.attributes & ATTRIBUTES & ~LOG_APPEND_TIME)
    changed = {"base_offset", "partition_leader_epoch", "crc", "attributes", "max_timestamp"}
    for name in set(sent._fields) - changed:
        assert getattr(kept, name) == getattr(sent, name), name
    timestamps = [
        record.timestamp for record in iter_records(stored, size_bytes_max=BODY_BYTES_MAX)
    ]
    assert kept.max_timestamp == max(NO_TIMESTAMP, *timestamps)
    assert len(timestamps) == kept.record_count


@pytest.mark.slow
@repeated(in_test=3_000, in_soak=100_000, each_s=1)
def test_batches_that_are_almost_right(repeats: Repeats) -> None:
    said: Counter[ErrorCode] = Counter()
    with (
        Broker(in_process=True, settings=SETTINGS) as broker,
        RawConnection("127.0.0.1", broker.port) as connection,
    ):
        partition = Partition(connection)
        chance = random.Random(repeats.seed)
        for number in range(repeats.count):
            if number % IN_A_TOPIC == 0:
                partition.renew()
            said[partition.take(almost_batch(chance))] += 1
        assert "Traceback" not in broker.log
    assert said.keys() <= REFUSALS | {ErrorCode.NONE}, said
    for code in (ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD):
        assert said[code] > repeats.count // 20, said


@pytest.mark.java
@repeated(in_soak=20_000, each_s=1)
def test_batches_that_are_almost_right_beside_kafka(repeats: Repeats) -> None:
    chance = random.Random(repeats.seed)
    with (
        apache_kafka("3.9.2", settings=SETTINGS) as kafka,
        Broker(in_process=True, settings=SETTINGS) as broker,
        RawConnection("127.0.0.1", kafka.port) as to_kafka,
        RawConnection("127.0.0.1", broker.port) as to_odradek,
    ):
        theirs, ours = Partition(to_kafka), Partition(to_odradek)
        in_step = False
        for number in range(repeats.count):
            batch = almost_batch(chance)
            if number % IN_A_TOPIC == 0 or not in_step:
                theirs.renew()
                ours.renew()
            end = ours.end
            kafka_says, we_say = ErrorCode(theirs.write(batch).error_code), ours.take(batch)
            in_step = (kafka_says == ErrorCode.NONE) == (we_say == ErrorCode.NONE)
            if in_step and end < ours.end and not read_header(batch).is_log_append_time:
                # Else Kafka keeps the greatest timestamp that the header claims.  For a moment it
                # may deny what was just written.
                kept_by_kafka = until(partial(theirs.read, end))
                assert without_epoch(kept_by_kafka) == without_epoch(ours.read(end)), number
            pair = kafka_says, we_say
            if kafka_says == ErrorCode.NONE != we_say:
                assert we_say in STRICTER, (number, pair, batch.hex())
            elif kafka_says != we_say:
                assert pair in OTHERWISE, (number, pair, batch.hex())
