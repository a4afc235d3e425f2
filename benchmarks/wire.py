"""Requests made by hand, so that no client library stands between the broker and the clock.

The versions are those that Apache Kafka 4.3.1 and Odradek both serve: Produce 11 (it still names
topics), Fetch 17 (by topic id), CreateTopics 7 (whose answer carries the id), DeleteTopics 6 and
ApiVersions 3.  All are flexible: lengths are unsigned varints plus one, tags end each struct.

A frame is encoded once; a client that sends it again only patches the correlation id (and, in
Fetch, the offset) in place.  Answers are read at fixed positions, which holds as long as the
request names one partition of one topic and the answer carries no tagged fields before the records.
"""

import struct
from dataclasses import dataclass
from typing import Final

PRODUCE: Final = 0
FETCH: Final = 1
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20

VERSION_OF: Final = {PRODUCE: 11, FETCH: 17, API_VERSIONS: 3, CREATE_TOPICS: 7, DELETE_TOPICS: 6}

CORRELATION_ID_POSITION: Final = 8
"""Where the correlation id stands in a request frame, counted from its length prefix."""

NO_TAGS: Final = b"\x00"
INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_uvarint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """The varint at `position`, and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def compact(data: bytes) -> bytes:
    """Compact bytes or a compact string."""
    return uvarint(len(data) + 1) + data


def request(api_key: int, body: bytes, correlation_id: int = 0) -> bytearray:
    """A whole frame with its length prefix and request header v2."""
    client_id = b"bench"
    header = struct.pack(">hhih", api_key, VERSION_OF[api_key], correlation_id, len(client_id))
    payload = header + client_id + NO_TAGS + body
    return bytearray(INT32.pack(len(payload)) + payload)


def produce_request(topic: str, partition: int, batch: bytes, *, acks: int = 1) -> bytearray:
    """Produce of one batch to one partition."""
    partition_data = INT32.pack(partition) + compact(batch) + NO_TAGS
    topic_data = compact(topic.encode()) + uvarint(2) + partition_data + NO_TAGS
    transactional_id = uvarint(0)
    body = transactional_id + struct.pack(">hi", acks, 30_000) + uvarint(2) + topic_data + NO_TAGS
    return request(PRODUCE, body)


def produce_answer(topic: str) -> bytes:
    """What a broker answers to a Produce that went well: its length, and where fields stand."""
    partition = struct.pack(">ihqqq", 0, 0, 0, -1, 0) + uvarint(1) + uvarint(0) + NO_TAGS
    topic_data = compact(topic.encode()) + uvarint(2) + partition + NO_TAGS
    payload = INT32.pack(0) + NO_TAGS + uvarint(2) + topic_data + INT32.pack(0) + NO_TAGS
    return INT32.pack(len(payload)) + payload


def produce_error_position(topic: str) -> int:
    """Where the partition's error code stands in the answer to `produce_request`."""
    return 4 + 4 + 1 + 1 + len(compact(topic.encode())) + 1 + 4


@dataclass(frozen=True, slots=True)
class FetchFrame:
    """An encoded Fetch and the place of its offset, to be patched before each send."""

    data: bytearray
    offset_position: int


def fetch_request(
    topic_id: bytes, partition: int, *, offset: int, bytes_max: int, wait_ms_max: int = 500
) -> FetchFrame:
    """Fetch of one partition outside of a fetch session."""
    limits = struct.pack(">iiibii", wait_ms_max, 1, bytes_max, 0, 0, -1)
    before_offset = struct.pack(">ii", partition, -1)
    after_offset = struct.pack(">iqi", -1, -1, bytes_max)
    head = limits + uvarint(2) + topic_id + uvarint(2) + before_offset
    tail = after_offset + NO_TAGS + NO_TAGS + uvarint(1) + compact(b"") + NO_TAGS
    frame = request(FETCH, head + INT64.pack(offset) + tail)
    return FetchFrame(frame, len(frame) - len(tail) - 8)


FETCH_ERROR_POSITION: Final = 4 + 4 + 1 + 4
"""Where the error of the whole Fetch stands in its answer, counted from the length prefix."""
FETCH_PARTITION_ERROR_POSITION: Final = FETCH_ERROR_POSITION + 2 + 4 + 1 + 16 + 1 + 4
FETCH_RECORDS_POSITION: Final = FETCH_PARTITION_ERROR_POSITION + 2 + 8 + 8 + 8 + 1 + 4
"""Where the length of the records stands, with aborted transactions null or empty."""


def fetch_error(answer: bytes | bytearray) -> int:
    """The error of a Fetch answer (without length prefix), of the request or of its partition."""
    (of_request,) = INT16.unpack_from(answer, FETCH_ERROR_POSITION - 4)
    if of_request:
        return int(of_request)
    return int(INT16.unpack_from(answer, FETCH_PARTITION_ERROR_POSITION - 4)[0])


def fetch_answer_head(topic_id: bytes, records_size_bytes: int) -> bytes:
    """All bytes of a Fetch answer before its records; `FETCH_ANSWER_TAIL` follows them."""
    head = INT32.pack(0) + NO_TAGS + struct.pack(">ihi", 0, 0, 0) + uvarint(2) + topic_id
    partition = struct.pack(">ihqqq", 0, 0, 1 << 40, 1 << 40, 0) + uvarint(0) + INT32.pack(-1)
    payload = head + uvarint(2) + partition + uvarint(records_size_bytes + 1)
    size_bytes = len(payload) + records_size_bytes + len(FETCH_ANSWER_TAIL)
    return INT32.pack(size_bytes) + payload


FETCH_ANSWER_TAIL: Final = NO_TAGS * 3
"""The ends of the partition, of the topic and of the body."""


def api_versions_request() -> bytearray:
    """ApiVersions 3, as every client's first request."""
    return request(API_VERSIONS, compact(b"odradek-bench") + compact(b"1") + NO_TAGS)


def create_topic_request(topic: str, partitions: int, configs: dict[str, str]) -> bytearray:
    """CreateTopics of one topic with replication factor 1."""
    pairs = [compact(k.encode()) + compact(v.encode()) + NO_TAGS for k, v in configs.items()]
    entries = uvarint(len(pairs) + 1) + b"".join(pairs)
    assignments = uvarint(1)
    topic_data = compact(topic.encode()) + struct.pack(">ih", partitions, 1) + assignments
    body = uvarint(2) + topic_data + entries + NO_TAGS + struct.pack(">ib", 60_000, 0) + NO_TAGS
    return request(CREATE_TOPICS, body)


def created_topic_id(answer: bytes) -> bytes:
    """The id of the topic in the answer (without length prefix) to `create_topic_request`."""
    position = 4 + 1 + 4 + 1
    name_length, position = read_uvarint(answer, position)
    position += name_length - 1
    topic_id = answer[position : position + 16]
    (error_code,) = INT16.unpack_from(answer, position + 16)
    if error_code:
        raise RuntimeError(f"CreateTopics answered error code {error_code}")
    return topic_id


def delete_topic_request(topic: str) -> bytearray:
    """DeleteTopics of one topic by name."""
    entry = compact(topic.encode()) + bytes(16) + NO_TAGS
    return request(DELETE_TOPICS, uvarint(2) + entry + INT32.pack(60_000) + NO_TAGS)
