"""Records of the brokers under test, read and written through the admin API."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from .door import AdminClients

Header = tuple[str, bytes | None]
BASE64 = "base64"


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read."""

    partition: int
    offset: int
    timestamp: int
    """Milliseconds since the Unix epoch."""
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The record of an answer in base64."""
        return cls(
            given["partition"],
            given["offset"],
            given["timestamp"],
            _decoded(given["key"]),
            _decoded(given["value"]),
            tuple((name, _decoded(value)) for name, value in given["headers"]),
        )


class Written(NamedTuple):
    """Where a record was written."""

    partition: int
    offset: int


def read_records(
    admins: AdminClients, topic: str, *, partition: int | None, isolation: str
) -> list[Record]:
    """All records of a topic, or of one partition, in the order of partition and offset."""
    known = admins.first.get("topics", topic)["partitions"]
    numbers = [each["partition"] for each in known] if partition is None else [partition]
    return [
        record for number in numbers for record in _of_partition(admins, topic, number, isolation)
    ]


def _of_partition(
    admins: AdminClients, topic: str, partition: int, isolation: str
) -> Iterable[Record]:
    offset = 0
    while True:
        answer = admins.ask_where_it_is(
            lambda admin, offset=offset: admin.get(  # type: ignore[misc]
                "topics",
                topic,
                "records",
                partition=partition,
                offset=offset,
                isolation=isolation,
                encoding=BASE64,
                limit=10_000,
            )
        )
        yield from map(Record.of, answer["records"])
        (end,) = answer["partitions"]
        if end["next_offset"] <= offset or end["next_offset"] >= end["high_watermark"]:
            return
        offset = end["next_offset"]


def write_record(
    admins: AdminClients,
    topic: str,
    value: str | bytes | None,
    *,
    key: str | bytes | None,
    headers: Iterable[tuple[str, str | bytes | None]],
    partition: int | None,
    timestamp: int | None,
) -> Written:
    """Write one record with acks=all."""
    record = {
        "key": _encoded(key),
        "value": _encoded(value),
        "headers": [[name, _encoded(each)] for name, each in headers],
        "partition": partition,
        "timestamp": timestamp,
    }
    answer = admins.ask_where_it_is(
        lambda admin: admin.post("topics", topic, "records", records=[record], encoding=BASE64)
    )
    (place,) = answer["records"]
    return Written(place["partition"], place["offset"])


def _encoded(data: str | bytes | None) -> str | None:
    if data is None:
        return None
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class Records:
    """What a `Broker` reads and writes, and where that is led and coordinated."""

    _admins: AdminClients

    def records(
        self,
        topic: str,
        *,
        partition: int | None = None,
        isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    ) -> list[Record]:
        """All records of a topic, or of one partition, by partition and offset.

        Raises: AdminError.
        """
        return read_records(self._admins, topic, partition=partition, isolation=isolation)

    def produce(
        self,
        topic: str,
        value: str | bytes | None,
        *,
        key: str | bytes | None = None,
        headers: Iterable[tuple[str, str | bytes | None]] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Written:
        """Write a record to a topic that exists; return once it is replicated.

        Without a partition, the key chooses it as in Java's producer, and without a key it is 0.
        Raises: AdminError.
        """
        return write_record(
            self._admins,
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
        )

    def move_leader(self, topic: str, partition: int = 0, *, to: int | None = None) -> int:
        """Make another broker that is in sync the leader; return its id.  Raises: AdminError."""
        answer = self._admins.first.post(
            "topics", topic, "partitions", partition, "move_leader", to=to
        )
        return int(answer["leader"])

    def shuffle_leaders(self, topic: str | None = None) -> dict[tuple[str, int], int]:
        """Move the leadership of all partitions to other brokers; return the new leaders.

        Raises: AdminError.
        """
        answer = self._admins.first.post("shuffle_leaders", topic=topic)
        return {(each["topic"], each["partition"]): each["leader"] for each in answer["leaders"]}

    def coordinator(self, name: str, *, of: Literal["group", "transaction"] = "group") -> int:
        """The broker that coordinates a group, or a transactional id.  Raises: AdminError."""
        return int(self._admins.first.get("coordinators", name, of=of)["coordinator"])

    def move_coordinator(
        self,
        name: str,
        *,
        to: int | None = None,
        of: Literal["group", "transaction"] = "group",
    ) -> int:
        """Make another broker the coordinator of a group, or of a transactional id; return its id.

        The broker must be in sync with the partition of the internal topic. All other groups, or
        ids, of that partition move with it.  Raises: AdminError.
        """
        answer = self._admins.first.post("coordinators", name, "move", to=to, of=of)
        return int(answer["coordinator"])
