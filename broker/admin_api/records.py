"""Records: reading what is in a topic, and writing some into it.  For tests, not for loads."""

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.primitives import INT32_MAX, INT64_MAX, Buffer
from odradek.protocol.records import build_batch
from odradek.protocol.records.record import Record
from odradek.storage.errors import StorageError

from ..core.partition import Partition
from ..core.partitioner import partition_of_key
from ..peers.own import ask_self
from . import schemas
from .asking import TIMEOUT_MS, check, leader_node, states_of
from .controls import Controls
from .fields import TEXT, Field, Json, list_of, nullable, object_of, one_of, pair_of, whole
from .problems import Problem
from .reading import Limit, Read, read_records
from .views import record_in

PRODUCE_VERSION: Final = 11
ACKS_ALL: Final = -1
LED_WITHIN_S: Final = 5.0
POLL_S: Final = 0.02
RECORDS_MAX: Final = 10_000
HEADERS_MAX: Final = 100
ANSWER_BYTES_MAX: Final = 4 << 20
AS_TEXT: Final = "text"
AS_BASE64: Final = "base64"
COMMITTED: Final = "read_committed"
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}

RECORD: Final = schemas.members(
    partition=schemas.INTEGER,
    offset=schemas.INTEGER,
    timestamp=schemas.INTEGER,
    key=_TEXT_OR_NULL,
    value=_TEXT_OR_NULL,
    headers=schemas.array(schemas.array(_TEXT_OR_NULL)),
)
END: Final = schemas.members(
    partition=schemas.INTEGER,
    next_offset=schemas.INTEGER,
    high_watermark=schemas.INTEGER,
)
RECORDS: Final = schemas.members(records=schemas.array(RECORD), partitions=schemas.array(END))
WRITTEN: Final = schemas.members(
    records=schemas.array(schemas.members(partition=schemas.INTEGER, offset=schemas.INTEGER))
)
ENCODING: Final = Field(
    "encoding",
    one_of(AS_TEXT, AS_BASE64),
    "How keys, values and values of headers are in JSON: base64 can have any bytes.",
    AS_TEXT,
)
ISOLATION: Final = Field(
    "isolation",
    one_of("read_uncommitted", COMMITTED),
    "read_committed leaves out what is in open or aborted transactions.",
    "read_uncommitted",
)
READ: Final = (
    Field("partition", nullable(whole(0, INT32_MAX)), "Only this one; default: all.", None),
    Field("offset", whole(0, INT64_MAX), "Where to begin; default: with the first one.", 0),
    Field("limit", whole(1, RECORDS_MAX), "The most records of the answer.", 1000),
    ISOLATION,
    ENCODING,
)
WRITE: Final = (
    Field(
        "records",
        list_of(
            object_of(
                Field("key", nullable(TEXT), "Its key.", None),
                Field("value", nullable(TEXT), "Its value; null is a tombstone."),
                Field(
                    "headers",
                    list_of(pair_of(TEXT, nullable(TEXT)), at_most=HEADERS_MAX),
                    "Pairs of name and value.",
                    (),
                ),
                Field(
                    "partition",
                    nullable(whole(0, INT32_MAX)),
                    "Default: by the hash of the key, as Java's producer; without a key 0.",
                    None,
                ),
                Field("timestamp", nullable(whole(0, INT64_MAX)), "Default: now.", None),
            ),
            at_most=RECORDS_MAX,
        ),
        "What to write. The records of a partition are one batch.",
    ),
    ENCODING,
)


def read(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Read records of a topic, partition by partition; next_offset says where to go on."""
    topic, asked = path["topic"], fields["partition"]
    numbers = [state.partition for state in states_of(controls, topic)]
    is_committed = fields["isolation"] == COMMITTED
    records_left, bytes_left = fields["limit"], ANSWER_BYTES_MAX
    shown: list[Json] = []
    ends: list[Json] = []
    for number in numbers if asked is None else [asked]:
        node = leader_node(controls, topic, number)
        partition = node.find(topic, number)
        offset = max(fields["offset"], partition.log.log_start_offset)
        while records_left > 0 and bytes_left > 0:
            limit = Limit(records_left, bytes_left, node.decompressed_bytes_max)
            found = _read(partition, offset, limit, is_committed=is_committed)
            if found.next_offset == offset:
                break
            records_left -= len(found.records)
            bytes_left -= found.size_bytes
            offset = found.next_offset
            shown += [_shown(record, number, fields["encoding"]) for record in found.records]
        high_watermark = partition.log.high_watermark
        ends.append({"partition": number, "next_offset": offset, "high_watermark": high_watermark})
    return {"records": shown, "partitions": ends}


async def write(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Write records, with acks=all; return once they are replicated."""
    topic, asked = path["topic"], fields["records"]
    count = len(states_of(controls, topic))
    by_partition: dict[int, list[int]] = {}
    made = []
    for index, each in enumerate(asked):
        record = _record(each, fields["encoding"], controls.runtime.clock.wall_ms())
        number = each["partition"]
        if number is None:
            key = record.key
            number = 0 if key is None else partition_of_key(bytes(key), count)
        by_partition.setdefault(number, []).append(index)
        made.append(record)
    for number in by_partition:
        leader_node(controls, topic, number)  # all are known to be led before any is written
    places: list[Json] = [None] * len(made)
    for number, indexes in by_partition.items():
        first = await _append(controls, topic, number, [made[index] for index in indexes])
        for position, index in enumerate(indexes):
            places[index] = {"partition": number, "offset": first + position}
    return {"records": places}


def _read(partition: Partition, offset: int, limit: Limit, *, is_committed: bool) -> Read:
    """Raises: Problem."""
    log = partition.log
    name = f"{log.topic}-{log.partition}"
    if offset > log.log_end_offset:
        raise Problem(409, f"{name} ends at offset {log.log_end_offset}")
    try:
        return read_records(log, offset, limit, is_committed=is_committed)
    except (StorageError, MalformedMessage) as error:
        raise Problem(409, f"{name} can't be read: {error}") from error


async def _append(controls: Controls, topic: str, partition: int, records: Sequence[Record]) -> int:
    """Append a batch; returns the offset of its first record.

    A broker that has just started knows who leads before it has its own roles: it is asked again,
    as by a producer.  Raises: Problem.
    """
    from odradek.protocol.messages.k00_produce import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

    for delta, record in enumerate(records):
        record.offset = delta
    batch = memoryview(build_batch(records))
    request = ProduceRequest(
        acks=ACKS_ALL,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
            )
        ],
    )
    loop = asyncio.get_running_loop()
    until_s = loop.time() + LED_WITHIN_S
    while True:
        node = leader_node(controls, topic, partition)
        answer: Any = await ask_self(node, request, PRODUCE_VERSION)
        result = answer.responses[0].partition_responses[0]
        is_refused = result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        # With an offset it was appended: it may still be committed, and would be there twice.
        if not is_refused or result.base_offset >= 0 or loop.time() > until_s:
            break
        await asyncio.sleep(POLL_S)
    check(result.error_code, result.error_message, f"{topic}-{partition}")
    return int(result.base_offset)


def _record(each: Mapping[str, Any], encoding: str, wall_ms: int) -> Record:
    """Raises: Problem."""
    timestamp = each["timestamp"]
    return Record(
        0,
        wall_ms if timestamp is None else timestamp,
        _bytes(each["key"], encoding),
        _bytes(each["value"], encoding),
        [(name, _bytes(value, encoding)) for name, value in each["headers"]],
    )


def _bytes(text: str | None, encoding: str) -> bytes | None:
    """Raises: Problem."""
    if text is None or encoding == AS_TEXT:
        return None if text is None else text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(400, f"{text[:20]!r} is not base64") from None


def _shown(record: Record, partition: int, encoding: str) -> Json:
    """Raises: Problem."""

    def text(data: Buffer | None) -> str | None:
        if data is None:
            return None
        if encoding == AS_BASE64:
            return base64.b64encode(data).decode()
        try:
            return bytes(data).decode()
        except UnicodeDecodeError:
            raise Problem(
                409,
                f"the record at offset {record.offset} of partition {partition} is not text: "
                "ask with encoding=base64",
            ) from None

    return record_in(partition, record, text)
