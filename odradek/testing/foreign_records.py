"""Reads records by Fetch requests, as a consumer of any broker does."""

import base64
from collections.abc import Iterator
from typing import Any, Final, cast

from odradek.broker.admin_api.views import record_in
from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.primitives import Buffer
from odradek.protocol.records import BatchHeader, MarkerType, iter_batches, read_marker
from odradek.protocol.records.record import Record, iter_records

from .cluster_client import ClusterClient, check, until_it_passes

EARLIEST: Final = -2
LATEST: Final = -1
COMMITTED: Final = "read_committed"
FETCH_BYTES_MAX: Final = 1 << 24
BATCH_BYTES_MAX: Final = 1 << 28


def read(
    cluster: ClusterClient,
    topic: str,
    partition: int,
    *,
    offset: int = 0,
    isolation: str,
    limit: int | None = None,
) -> tuple[list[Any], Any]:
    """Records of a partition from an offset on, and where it goes on, as the admin API has them
    in base64.  Raises: BrokerFailed.
    """
    offset = max(offset, offset_at(cluster, topic, partition, EARLIEST))
    records: list[Any] = []
    next_offset = offset
    while True:
        told = until_it_passes(
            lambda offset=offset: _fetched(cluster, topic, partition, offset, isolation)  # type: ignore[misc]
        )
        end = told.last_stable_offset if isolation == COMMITTED else told.high_watermark
        for last_offset, record in _records(told, is_committed=isolation == COMMITTED):
            next_offset = last_offset + 1
            if record is not None and offset <= record.offset < end:
                records.append(record_in(partition, record, _text))
        if limit is not None and len(records) > limit:
            next_offset = records[limit]["offset"]
            del records[limit:]
            break
        if next_offset == offset or next_offset >= end:
            next_offset = end
            break
        offset = next_offset
    return records, {"partition": partition, "next_offset": next_offset, "high_watermark": end}


def offset_at(cluster: ClusterClient, topic: str, partition: int, timestamp: int) -> int:
    """The offset that ListOffsets tells for a time, or for EARLIEST or LATEST.

    Raises: BrokerFailed.
    """
    place = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[place])]
    )

    def ask() -> int:
        leader = cluster.leader(topic, partition)
        told = cluster.ask(leader, request, ListOffsetsResponse, at_most=5)
        result = told.topics[0].partitions[0]
        check(result.error_code, None, f"{topic}-{partition}")
        return result.offset

    return until_it_passes(ask)


def _fetched(
    cluster: ClusterClient, topic: str, partition: int, offset: int, isolation: str
) -> PartitionData:
    place = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=FETCH_BYTES_MAX,
        isolation_level=isolation == COMMITTED,
        topics=[FetchTopic(topic=topic, partitions=[place])],
    )
    told = cluster.ask(cluster.leader(topic, partition), request, FetchResponse, at_most=11)
    check(told.error_code, None, topic)
    (result,) = told.responses[0].partitions
    check(result.error_code, None, f"{topic}-{partition}")
    return result


def _records(told: PartitionData, *, is_committed: bool) -> Iterator[tuple[int, Record | None]]:
    """The last offset of each batch, with each record of it that is to be seen, or with None."""
    aborted = sorted((told.aborted_transactions or []), key=lambda each: each.first_offset)
    open_aborted: set[int] = set()
    data = memoryview(cast(Buffer, told.records or b""))
    for position, header in iter_batches(data):
        last_offset = header.base_offset + header.last_offset_delta
        while aborted and aborted[0].first_offset <= last_offset:
            open_aborted.add(aborted.pop(0).producer_id)
        is_hidden = header.is_control or (
            is_committed and header.is_transactional and header.producer_id in open_aborted
        )
        yield last_offset, None
        batch = data[position:]
        if header.is_control and _is_abort(batch, header):
            open_aborted.discard(header.producer_id)
        if not is_hidden:
            for record in iter_records(batch, header, size_bytes_max=BATCH_BYTES_MAX):
                yield last_offset, record


def _is_abort(batch: memoryview, header: BatchHeader) -> bool:
    (marker,) = iter_records(batch, header, size_bytes_max=BATCH_BYTES_MAX)
    return read_marker(marker).type == MarkerType.ABORT


def _text(data: Buffer | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
