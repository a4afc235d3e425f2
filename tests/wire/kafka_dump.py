"""What `odradek log dump` says, in the words of Kafka's DumpLogSegments."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from odradek.storage.inspect.batch_lines import DumpOptions
from odradek.storage.inspect.lines import dump_path
from odradek.storage.inspect.read_only import ReadOnlyFileSystem


def in_kafkas_words(path: Path, *, records: bool = True) -> Iterator[str]:
    """A line for each object, as `--deep-iteration --print-data-log` prints it."""
    timestamp_type = ""
    options = DumpOptions(records=records)
    for line in dump_path(ReadOnlyFileSystem(), str(path), options):
        if line["type"] == "batch":
            timestamp_type = line["timestamp_type"]
        yield _WORDS[line["type"]]({**line, "timestamp_type": timestamp_type})


def _batch(line: dict[str, Any]) -> str:
    horizon = line["delete_horizon_ms"]
    return (
        f"baseOffset: {line['base_offset']} lastOffset: {line['last_offset']} "
        f"count: {line['count']} baseSequence: {line['base_sequence']} "
        f"lastSequence: {line['last_sequence']} producerId: {line['producer_id']} "
        f"producerEpoch: {line['producer_epoch']} "
        f"partitionLeaderEpoch: {line['partition_leader_epoch']} "
        f"isTransactional: {_java(line['is_transactional'])} "
        f"isControl: {_java(line['is_control'])} "
        f"deleteHorizonMs: {_optional(-1 if horizon is None else horizon)} "
        f"position: {line['position']} {line['timestamp_type']}: {line['max_timestamp']} "
        f"size: {line['size_bytes']} magic: {line['magic']} compresscodec: {line['codec']} "
        f"crc: {line['crc']} isvalid: {_java(line['crc_valid'])}"
    )


def _record(line: dict[str, Any]) -> str:
    keys = ",".join(name for name, _ in line["headers"])
    said = (
        f"| offset: {line['offset']} {line['timestamp_type']}: {line['timestamp']} "
        f"keySize: {_size(line['key'])} valueSize: {_size(line['value'])} "
        f"sequence: {line['sequence']} headerKeys: [{keys}]"
    )
    if "control" in line:
        control = line["control"]
        epoch = control["coordinator_epoch"]
        return f"{said} endTxnMarker: {control['marker']} coordinatorEpoch: {epoch}"
    said += "" if line["key"] is None else f" key: {_text(line['key'])}"
    return said + ("" if line["value"] is None else f" payload: {_text(line['value'])}")


def _producer(line: dict[str, Any]) -> str:
    first = -1 if line["last_sequence"] < 0 else line["last_sequence"] - line["offset_delta"]
    return (
        f"producerId: {line['producer_id']} producerEpoch: {line['producer_epoch']} "
        f"coordinatorEpoch: {line['coordinator_epoch']} "
        f"currentTxnFirstOffset: {_optional(line['transaction_first_offset'])} "
        f"lastTimestamp: {line['last_timestamp']} firstSequence: {first} "
        f"lastSequence: {line['last_sequence']} lastOffset: {line['last_offset']} "
        f"offsetDelta: {line['offset_delta']} timestamp: {line['last_timestamp']}"
    )


_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "batch": _batch,
    "record": _record,
    "producer": _producer,
    "offset_index_entry": lambda x: f"offset: {x['offset']} position: {x['position']}",
    "time_index_entry": lambda x: f"timestamp: {x['timestamp']} offset: {x['offset']}",
    "aborted_transaction": lambda x: (
        f"version: {x['version']} producerId: {x['producer_id']} "
        f"firstOffset: {x['first_offset']} lastOffset: {x['last_offset']} "
        f"lastStableOffset: {x['last_stable_offset']}"
    ),
}


def _java(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int) -> str:
    return "OptionalLong.empty" if value < 0 else f"OptionalLong[{value}]"


def _size(data: str | dict[str, str] | None) -> int:
    if data is None:
        return -1
    return len(data.encode()) if isinstance(data, str) else len(base64.b64decode(data["base64"]))


def _text(data: str | dict[str, str]) -> str:
    assert isinstance(data, str), "the tool prints bytes that are no text with losses"
    return data
