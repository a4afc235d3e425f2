"""Dumps every file of a data directory as JSON objects, one for each entry.

The keys of each object type are stable: new ones may be added, none is removed. Unreadable bytes
become an object of type `damage`, followed by the next readable entry. A segment is never held in
memory as a whole.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from ..directory.meta_properties import META_PROPERTIES, read_meta_properties
from ..errors import DataDirError
from ..files import FileSystem
from ..log.checkpoint import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCH,
    PARTITION_METADATA,
    parse_epochs,
    parse_offsets,
    parse_partition_metadata,
)
from ..log.index import OFFSET_ENTRY, TIME_ENTRY
from ..log.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from ..log.producer_snapshot import decode_snapshot
from ..log.producer_state import KeptBatch
from ..log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from ..log.txn_index import TXN_ENTRY
from .batch_lines import DumpOptions, Line, batch_lines
from .check_directory import CHECKPOINTS
from .check_index import padding_bytes

Damage = Callable[..., Line]
_CHUNK_ENTRIES: Final = 1 << 12


def dump_path(files: FileSystem, path: str, options: DumpOptions) -> Iterator[Line]:
    """The objects of a file, or of all files in a directory and below.  Raises: LogDirFailed."""
    if _is_directory(files, path):
        for name in _in_order(files, path):
            yield from dump_path(files, f"{path}/{name}", options)
    else:
        for line in _dump_file(files, path, options):
            yield {"type": line.pop("type"), "file": path, **line}


def _is_directory(files: FileSystem, path: str) -> bool:
    parent, _, name = path.rstrip("/").rpartition("/")
    infos = files.list_directory(parent or ("/" if path.startswith("/") else "."))
    found = [info.is_directory for info in infos if info.name == name]
    return found[0] if found else name in ("", ".", "..")


def _in_order(files: FileSystem, path: str) -> list[str]:
    """Names in order: segments last, each with its indexes; only directories and Kafka's files."""
    infos = files.list_directory(path)
    names = [info.name for info in infos if info.is_directory or is_known(info.name)]
    return sorted(names, key=lambda name: (name[:1].isdigit(), name.split(".")[0], name))


def is_known(name: str) -> bool:
    """Whether `dump_path` can read a file of this name."""
    return name in _BY_NAME or name[name.rfind(".") :] in (*_BY_SUFFIX, LOG_SUFFIX)


def _dump_file(files: FileSystem, path: str, options: DumpOptions) -> Iterator[Line]:
    name = path.rpartition("/")[2]
    suffix = name[name.rfind(".") :] if "." in name else ""
    base_offset = int(name.split(".")[0]) if name.split(".")[0].isdecimal() else 0
    if suffix == LOG_SUFFIX:
        yield from batch_lines(files, path, base_offset, options)
        return
    reader = _BY_NAME.get(name) or _BY_SUFFIX.get(suffix)
    if reader is None:
        yield damage(f"no file of a log is named {name}")
        return
    try:
        for line in reader(files, path, base_offset):
            if options.wants(line.get("offset")):
                yield line
    except (ValueError, DataDirError) as error:
        yield damage(str(error))


def damage(problem: str, position: int | None = None, size_bytes: int | None = None) -> Line:
    """The object for bytes that can't be read."""
    return {
        "type": "damage", "position": position, "size_bytes": size_bytes, "problem": problem
    }  # fmt: skip


def _entries(
    files: FileSystem, path: str, entry: Any
) -> Iterator[tuple[int, tuple[int, ...]] | Line]:
    """Position and fields of each entry; then objects for an incomplete entry and for padding."""
    data = files.read_bytes(path) or b""
    padding = padding_bytes(data, entry) if entry is not TXN_ENTRY else 0
    used = len(data) - padding
    rest = used % entry.size
    view = memoryview(data)[: used - rest]
    for number, numbers in enumerate(entry.iter_unpack(view)):
        yield number * entry.size, numbers
    if rest:
        yield damage("the file ends inside an entry", used - rest, rest)
    if padding:
        yield {"type": "padding", "position": used, "size_bytes": padding}


def _offset_index(files: FileSystem, path: str, base_offset: int) -> Iterator[Line]:
    for found in _entries(files, path, OFFSET_ENTRY):
        if isinstance(found, dict):
            yield found
            continue
        relative_offset, position = found[1]
        yield {
            "type": "offset_index_entry",
            "offset": base_offset + relative_offset,
            "position": position,
        }


def _time_index(files: FileSystem, path: str, base_offset: int) -> Iterator[Line]:
    for found in _entries(files, path, TIME_ENTRY):
        if isinstance(found, dict):
            yield found
            continue
        timestamp, relative_offset = found[1]
        yield {
            "type": "time_index_entry",
            "timestamp": timestamp,
            "offset": base_offset + relative_offset,
        }


def _txn_index(files: FileSystem, path: str, base_offset: int) -> Iterator[Line]:
    for found in _entries(files, path, TXN_ENTRY):
        if isinstance(found, dict):
            yield found
            continue
        version, producer_id, first_offset, last_offset, last_stable_offset = found[1]
        yield {
            "type": "aborted_transaction",
            "version": version,
            "producer_id": producer_id,
            "first_offset": first_offset,
            "last_offset": last_offset,
            "last_stable_offset": last_stable_offset,
        }


def _snapshot(files: FileSystem, path: str, base_offset: int) -> Iterator[Line]:
    for entry in decode_snapshot(files.read_bytes(path) or b"").entries():
        last = entry.batches[-1] if entry.batches else KeptBatch(-1, -1, 0, -1)
        yield {
            "type": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": last.last_sequence,
            "last_offset": last.last_offset,
            "offset_delta": last.offset_delta,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.transaction_first_offset,
        }


def _epochs(files: FileSystem, path: str, base_offset: int) -> Iterator[Line]:
    for epoch, start_offset in parse_epochs(files.read_bytes(path) or b"0\n0\n"):
        yield {"type": "leader_epoch", "epoch": epoch, "start_offset": start_offset}


def _partition_metadata(files: FileSystem, path: str, base_offset: int) -> Iterator[Line]:
    from odradek.protocol.primitives import uuid_text

    topic_id = parse_partition_metadata(files.read_bytes(path) or b"")
    yield {"type": "partition_metadata", "topic_id": uuid_text(topic_id)}


def _owner(files: FileSystem, path: str, base_offset: int) -> Iterator[Line]:
    owner = read_meta_properties(files, path)
    if owner is not None:
        yield {
            "type": "meta_properties",
            "broker_id": owner.broker_id,
            "cluster_id": owner.cluster_id,
        }


def _checkpoint(files: FileSystem, path: str, base_offset: int) -> Iterator[Line]:
    name = path.rpartition("/")[2]
    for (topic, partition), offset in parse_offsets(files.read_bytes(path) or b"0\n0\n").items():
        yield {
            "type": "checkpoint",
            "checkpoint": name,
            "topic": topic,
            "partition": partition,
            "checkpointed_offset": offset,
        }


def _marker(files: FileSystem, path: str, base_offset: int) -> Iterator[Line]:
    content = (files.read_bytes(path) or b"").decode("utf-8", "replace")
    yield {"type": "clean_shutdown", "content": content}


_Reader = Callable[[FileSystem, str, int], Iterator[Line]]
_BY_SUFFIX: Final[dict[str, _Reader]] = {
    INDEX_SUFFIX: _offset_index,
    TIME_INDEX_SUFFIX: _time_index,
    TXN_INDEX_SUFFIX: _txn_index,
    SNAPSHOT_SUFFIX: _snapshot,
}
_BY_NAME: Final[dict[str, _Reader]] = {
    LEADER_EPOCH: _epochs,
    PARTITION_METADATA: _partition_metadata,
    META_PROPERTIES: _owner,
    CLEAN_SHUTDOWN: _marker,
    **dict.fromkeys(CHECKPOINTS, _checkpoint),
}
