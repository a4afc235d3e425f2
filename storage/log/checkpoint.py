"""The small text files of a data directory and of a partition, in Kafka's format.

A file that does not parse is logged and treated as absent. Everything here can be derived from the
segments, so a bad file costs a scan but never takes the directory offline.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.protocol.primitives import INT32_MAX, INT64_MAX, uuid_bytes, uuid_text

from ..files import FileSystem

logger: Final = logging.getLogger("odradek.storage")

RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
LOG_START: Final = "log-start-offset-checkpoint"
CLEANER: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN_TEXT: Final = b'{"version":0,"brokerEpoch":-1}'

OFFSET_MAX: Final = INT64_MAX - INT32_MAX - 1  # a segment that begins here can't overflow int64

TopicPartition = tuple[str, int]


def render_lines(lines: Iterable[str]) -> bytes:
    """A checkpoint file: version 0, the count, then the lines."""
    body = list(lines)
    return "\n".join(["0", str(len(body)), *body, ""]).encode()


def parse_lines(data: bytes) -> list[str]:
    """The lines of a checkpoint file.

    Raises: ValueError (another version, a wrong count, an incomplete line, not text).
    """
    if not data.endswith(b"\n"):
        raise ValueError("the last line is incomplete")
    version, count, *lines = data.decode("ascii").split("\n")[:-1]
    if version != "0":
        raise ValueError(f"version {version!r} is not 0")
    if int(count) != len(lines):
        raise ValueError(f"{count} entries are announced and {len(lines)} are there")
    return lines


def render_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """An offset checkpoint: one `topic partition offset` a line."""
    return render_lines(
        f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()
    )


def parse_offsets(data: bytes) -> dict[TopicPartition, int]:
    """The entries of an offset checkpoint.  Raises: ValueError."""
    offsets = {}
    for line in parse_lines(data):
        topic, partition, offset = line.split(" ")
        if not 0 <= int(offset) <= OFFSET_MAX:
            raise ValueError(f"no offset in {line!r}")
        offsets[topic, int(partition)] = int(offset)
    return offsets


def read_offsets(files: FileSystem, path: str) -> dict[TopicPartition, int] | None:
    """An offset checkpoint, or None if it is missing, empty or unreadable (then with a warning).

    Kafka creates empty files before it has anything to write.
    """
    data = files.read_bytes(path)
    if not data:
        return None
    try:
        return parse_offsets(data)
    except ValueError as error:
        logger.warning("checkpoint unreadable, treated as absent path=%s error=%s", path, error)
        return None


def render_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """A leader-epoch checkpoint: one `epoch start_offset` a line."""
    return render_lines(f"{epoch} {start_offset}" for epoch, start_offset in entries)


def parse_epochs(data: bytes) -> list[tuple[int, int]]:
    """The (epoch, start offset) pairs.  Raises: ValueError (also unless both strictly rise)."""
    entries: list[tuple[int, int]] = []
    for line in parse_lines(data):
        epoch, start_offset = (int(word) for word in line.split(" "))
        if not (0 <= epoch <= INT32_MAX and 0 <= start_offset <= OFFSET_MAX):
            raise ValueError(f"no epoch and offset in {line!r}")
        if entries and (epoch <= entries[-1][0] or start_offset <= entries[-1][1]):
            raise ValueError(f"{line!r} does not rise")
        entries.append((epoch, start_offset))
    return entries


def render_partition_metadata(topic_id: bytes) -> bytes:
    """The file with a partition's topic id; Kafka writes no newline at its end."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def parse_partition_metadata(data: bytes) -> bytes:
    """The topic id.  Raises: ValueError."""
    fields = dict(line.split(": ", 1) for line in data.decode("ascii").splitlines() if line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("version 0 and topic_id are expected")
    return uuid_bytes(fields["topic_id"])


def read_topic_id(files: FileSystem, path: str) -> bytes | None:
    """The topic id of a partition, or None if unknown (with a warning if unreadable)."""
    data = files.read_bytes(path)
    if not data:
        return None
    try:
        return parse_partition_metadata(data)
    except ValueError as error:
        logger.warning("partition metadata unreadable path=%s error=%s", path, error)
        return None
