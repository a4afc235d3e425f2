"""The benchmark's hand-made frames say what the protocol's own codec reads."""

from typing import TypeVar

import pytest

from benchmarks import batches, wire
from odradek.protocol.framing import read_client_id, read_request_start
from odradek.protocol.messages.k00_produce import ProduceRequest, ProduceResponse
from odradek.protocol.messages.k01_fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest
from odradek.protocol.records.batch import check_crc, read_header
from odradek.protocol.records.record import iter_records
from odradek.protocol.schema import Message

TOPIC_ID = bytes(range(16))
M = TypeVar("M", bound=Message)


def decoded(message: type[M], frame: bytearray) -> M:
    """The body of a whole frame, of which nothing may be left over."""
    assert len(frame) == 4 + int.from_bytes(frame[:4], "big")
    payload = bytes(frame[4:])
    api_key, api_version, _ = read_request_start(payload)
    _, position = read_client_id(payload, flexible=True)
    body, end = message.decode(payload, api_version, position)
    assert end == len(payload)
    assert api_key == message.API_KEY
    return body


def test_produce() -> None:
    frame = wire.produce_request("orders", 3, batches.batch(2, b"value"))
    frame[8:12] = wire.INT32.pack(77)
    request = decoded(ProduceRequest, frame)
    assert (request.acks, request.transactional_id) == (1, None)
    assert request.topic_data[0].name == "orders"
    assert request.topic_data[0].partition_data[0].index == 3
    assert read_request_start(bytes(frame[4:]))[2] == 77


def test_fetch_and_its_offset() -> None:
    fetch = wire.fetch_request(TOPIC_ID, 2, offset=5, bytes_max=999)
    wire.INT64.pack_into(fetch.data, fetch.offset_position, 1 << 40)
    request = decoded(FetchRequest, fetch.data)
    partition = request.topics[0].partitions[0]
    assert request.topics[0].topic_id == TOPIC_ID
    assert (partition.partition, partition.fetch_offset) == (2, 1 << 40)
    assert (request.max_bytes, partition.partition_max_bytes) == (999, 999)


def test_create_delete_and_api_versions() -> None:
    create = decoded(CreateTopicsRequest, wire.create_topic_request("t", 9, {"k": "v"}))
    assert (create.topics[0].name, create.topics[0].num_partitions) == ("t", 9)
    assert [(entry.name, entry.value) for entry in create.topics[0].configs] == [("k", "v")]
    assert not create.validate_only
    assert decoded(DeleteTopicsRequest, wire.delete_topic_request("t")).topics[0].name == "t"
    versions = decoded(ApiVersionsRequest, wire.api_versions_request())
    assert versions.client_software_name == "odradek-bench"


def test_produce_answer() -> None:
    answer = wire.produce_answer("orders")
    response, end = ProduceResponse.decode(answer, 11, 4 + 4 + 1)
    assert end == len(answer)
    assert response.responses[0].name == "orders"
    at = wire.produce_error_position("orders")
    refused = answer[:at] + wire.INT16.pack(6) + answer[at + 2 :]
    response, _ = ProduceResponse.decode(refused, 11, 4 + 4 + 1)
    assert response.responses[0].partition_responses[0].error_code == 6


@pytest.mark.parametrize("size_bytes", [0, 100, 1 << 20])
def test_fetch_answer(size_bytes: int) -> None:
    head = wire.fetch_answer_head(TOPIC_ID, size_bytes)
    answer = head + bytes(size_bytes) + wire.FETCH_ANSWER_TAIL
    assert len(answer) == 4 + int.from_bytes(answer[:4], "big")
    response, end = FetchResponse.decode(answer, 17, 4 + 4 + 1)
    assert end == len(answer)
    records = response.responses[0].partitions[0].records
    assert len(records or b"") == size_bytes
    length, position = wire.read_uvarint(head, wire.FETCH_RECORDS_POSITION)
    assert (length - 1, position) == (size_bytes, len(head))
    at = wire.FETCH_PARTITION_ERROR_POSITION
    assert wire.fetch_error(answer[4:]) == 0
    assert wire.fetch_error(answer[4:at] + wire.INT16.pack(3) + answer[at + 2 :]) == 3


@pytest.mark.parametrize("size_bytes_max", [1000, 1024, 16 << 10, 128 << 10])
def test_batches_are_valid_and_as_full_as_possible(size_bytes_max: int) -> None:
    batch, count = batches.batch_within(size_bytes_max, 500)
    header = read_header(batch)
    check_crc(batch, header)
    assert header.size_bytes == len(batch) <= size_bytes_max
    assert [
        record.offset for record in iter_records(batch, header, size_bytes_max=1 << 20)
    ] == list(range(count))
    assert len(batches.batch(count + 1, bytes(500))) > size_bytes_max
