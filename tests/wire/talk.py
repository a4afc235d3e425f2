"""One side of a conversation that is held with two brokers and compared.

A conversation is a function that asks a `Talk` for things. What is answered is noted as plain data
in which everything that may differ between two runs of the same broker (ids, clocks, ports) is
replaced by what is the same, and every request is named, so that a difference can be found again.
"""

import itertools
import struct
import time
from collections.abc import Iterator
from typing import Any, Final

from odradek.broker.handlers import APIS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.records import HEADER_SIZE_BYTES, Record, build_batch, iter_batches
from odradek.protocol.schema import Message, Struct
from tests.support.connections import HungUp, RawConnection
from tests.support.frames import answer_in, request_bytes, response_class
from tests.wire.servers import Server

API_VERSIONS_KEY: Final = 18
TIMESTAMP: Final = 1_700_000_000_000
DEADLINE_S: Final = 30.0
DAY_MS: Final = 86_400_000
CLOSED: Final = "(closed)"
IGNORED: Final = frozenset(
    {"throttle_time_ms", "port", "cluster_id", "total_bytes", "usable_bytes"}
)
# Texts are each broker's own; clients and tests look only at whether there is one.
PRESENCE: Final = frozenset({"error_message", "batch_index_error_message"})
SIGN: Final = frozenset({"producer_id", "log_dir"})
TIMES: Final = frozenset({"log_append_time_ms", "timestamp", "base_timestamp", "max_timestamp"})
# Kafka collects these in hash maps.
UNORDERED: Final = frozenset(
    {
        "active_producers",
        "configs",
        "entity",
        "entries",
        "partition_responses",
        "partition_result",
        "replica_election_results",
        "responses",
        "results",
        "synonyms",
        "topics",
        "values",
    }
)

Plain = dict[str, Any] | list[Any] | str | int | bytes | bool | None


class Talk:
    """A conversation with one broker."""

    def __init__(self, server: Server, topic_prefix: str) -> None:
        self.server = server
        self.topic_prefix = topic_prefix
        self.answers: dict[str, Plain] = {}
        self.topic_ids: dict[bytes, str] = {ZERO_UUID: "no id"}
        self._connection: RawConnection | None = None
        self._correlation_ids = itertools.count(1)

    @property
    def connection(self) -> RawConnection:
        """The connection in use; a new one after the broker has closed it."""
        if self._connection is None:
            self._connection = RawConnection(self.server.host, self.server.port)
        return self._connection

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.socket.close()
            self._connection = None

    def note(self, label: str, answer: Plain) -> None:
        """Keep something to be compared."""
        assert label not in self.answers, f"two answers are called {label!r}"
        self.answers[label] = answer

    def ask(self, label: str, request: Message, version: int) -> Any:
        """Send a request; note the answer, or that the broker hung up (then None is returned)."""
        answer = self.exchange(request, version)
        self.note(label, CLOSED if answer is None else self.plain(answer, version))
        return answer

    def exchange(self, request: Message, version: int) -> Any:
        """Send a request and return the answer, or None if the broker hung up."""
        correlation_id = next(self._correlation_ids)
        frame = self.ask_frame(request_bytes(request, version, correlation_id))
        if frame is None:
            return None
        return answer_in(frame, response_class(type(request)), version, correlation_id)

    def ask_frame(self, frame: bytes) -> bytes | None:
        """Send a frame; the answer, or None if the broker hung up."""
        try:
            self.connection.send_frame(frame)
            return self.connection.read_frame()
        except HungUp:
            self.close()
            return None

    def say_bytes(self, label: str, data: bytes) -> None:
        """Send bytes as they are on a connection of their own; note the answer's bytes."""
        self.close()
        try:
            self.connection.send(data)
            self.note(label, self.connection.read_frame())
        except HungUp:
            self.note(label, CLOSED)
        self.close()

    def say_unanswered(self, label: str, request: Message, version: int) -> None:
        """Send a request that has no answer; note whether the broker hung up over it."""
        self.connection.send_frame(request_bytes(request, version, next(self._correlation_ids)))
        probe = struct.pack(">hhihi", 3, 1, next(self._correlation_ids), -1, 0)
        self.note(label, CLOSED if self.ask_frame(probe) is None else "(goes on)")

    # Topics.

    def topic(self, stem: str) -> str:
        """The name of a topic of this conversation."""
        return f"{self.topic_prefix}-{stem}"

    def create(self, stem: str, partitions: int = 1, **configs: str) -> str:
        """Create a topic, with '_' in its settings' names for '.', and return its name."""
        return self.create_with_id(stem, partitions, **configs)[0]

    def create_with_id(self, stem: str, partitions: int = 1, **configs: str) -> tuple[str, bytes]:
        """The same; return its name and id."""
        name = self.topic(stem)
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        deadline = time.monotonic() + DEADLINE_S
        while True:  # Kafka may still be deleting a topic of this name
            answer = self.exchange(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
            code = answer.topics[0].error_code
            if code != ErrorCode.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                break
        assert code == 0, answer
        topic_id = answer.topics[0].topic_id
        self.topic_ids[topic_id] = f"id of {name}"
        return name, topic_id

    # Answers as plain data.

    def plain(self, value: Any, version: int) -> Plain:
        """A struct as a dict of the fields that this version has."""
        return {name: self._field(name, field, version) for name, field in _fields(value, version)}

    def _field(self, name: str, value: Any, version: int) -> Plain:
        if name in IGNORED:
            return None
        if name in PRESENCE:
            return None if value is None else "(text)" if value else ""
        if name == "session_id":
            return bool(value)
        if name in SIGN:
            return "(set)" if isinstance(value, str) or value >= 0 else value
        if isinstance(value, Struct):
            return self.plain(value, version)
        if isinstance(value, list):
            plain = [self._field("", one, version) for one in value]
            return sorted(plain, key=repr) if name in UNORDERED else plain
        if name == "records":
            return batches(value)
        if name in TIMES:
            return shown_time(value)
        if name == "topic_id":
            return self.topic_ids.get(value, "an id")
        plain_value: Plain = value
        return plain_value


def _fields(value: Struct, version: int) -> Iterator[tuple[str, Any]]:
    for field in value.FIELDS:
        if field.is_inline(version) or field.is_tagged(version):
            yield field.name, getattr(value, field.name)


def batches(data: bytes | memoryview | None) -> Plain:
    """The batches of a log or an answer, header by header; what they hold byte for byte."""
    if data is None:
        return None
    view = memoryview(data)
    found: list[Plain] = []
    for position, header in iter_batches(view):
        shown: dict[str, Any] = header._asdict()
        body = bytes(view[position + HEADER_SIZE_BYTES : position + header.size_bytes])
        if header.is_log_append_time:
            shown["crc"] = "(of another time)"
        if header.producer_id >= 0:
            shown["crc"] = shown["producer_id"] = "(of another producer)"
        shown.update((name, shown_time(shown[name])) for name in TIMES & shown.keys())
        found.append({**shown, "body": body})
    return found


def shown_time(wall_ms: int) -> Plain:
    """A time; the present as a word."""
    return "(now)" if abs(wall_ms - time.time() * 1000) < DAY_MS else wall_ms


def differences(ours: Plain, theirs: Plain, where: str = "") -> Iterator[str]:
    """Paths at which two answers differ, with both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted(ours.keys() | theirs.keys()):
            if name not in ours or name not in theirs:
                yield f"{where}.{name}: only in {'theirs' if name in theirs else 'ours'}"
            else:
                yield from differences(ours[name], theirs[name], f"{where}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif isinstance(ours, list) and isinstance(theirs, list):
        unmatched = list(theirs)
        for one in ours:
            if one in unmatched:
                unmatched.remove(one)
            else:
                yield f"{where}: only in ours: {one!r}"
        yield from (f"{where}: only in theirs: {other!r}" for other in unmatched)
    elif ours != theirs:
        yield f"{where}: ours {ours!r}, Kafka's {theirs!r}"


def batch(*values: bytes | None, timestamp: int = TIMESTAMP, **more: Any) -> bytearray:
    """A batch with one record a value, its timestamps a millisecond apart."""
    records = [Record(i, timestamp + i, b"key", value) for i, value in enumerate(values)]
    return build_batch(records, **more)


def versions(api_key: int, first: int = 0) -> range:
    """The versions of an API that are served, from `first` on."""
    return range(max(first, APIS[api_key].first), APIS[api_key].last + 1)
