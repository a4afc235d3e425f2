"""Topics, records, groups and waits of a broker without Odradek's admin API, such as Apache Kafka.

`ForeignAdmin` answers those paths of the admin API that Kafka's own requests can answer, so what a
`Broker` offers over them works alike. Everything else is refused in a sentence. Waits ask again and
again, as there is nobody who tells of changes.
"""

import base64
import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final

from odradek.broker.core.partitioner import partition_of_key
from odradek.durations import seconds_of
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.records import build_batch
from odradek.protocol.records.record import Record

from .cluster_client import (
    GROUP,
    TRANSACTION,
    ClusterClient,
    Passing,
    check,
    until,
    until_it_passes,
)
from .door import AdminClient, AdminClients, AdminError, NotFound
from .errors import hides
from .foreign_groups import described_group, listed_groups
from .foreign_records import LATEST, offset_at, read
from .records import BASE64
from .texts import text_of

__tracebackhide__ = hides
TIMEOUT_MS: Final = 15_000
STABLE: Final = "Stable"
NEEDS_ADMIN: Final = (
    "this needs an Odradek with an admin API, whose URL odradek_external_admin tells: %s"
)
_WHAT: Final = {
    "brokers": "brokers are stopped, killed, paused and started by it",
    "clock": "other brokers have a clock that nobody moves",
    "faults": "other brokers have no faults by rule",
    "network": "other brokers have links that nobody cuts",
    "journal": "other brokers keep no journal of requests",
    "snapshots": "other brokers have no snapshots",
}


class NotYet(Passing):
    """What is waited for is not so yet; a clause that says what is there instead."""


class ForeignAdmin(AdminClient):
    """Answers as the admin API does, by asking Kafka's requests."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    def get(self, *segments: object, **query: object) -> Any:
        """What is at a path.  Raises: AdminError, BrokerFailed."""
        match [str(segment) for segment in segments]:
            case ["topics"]:
                return {"topics": [*self._topics()]}
            case ["topics", name]:
                return self._topic(name)
            case ["topics", name, "records"]:
                return self._read(name, **query)
            case ["groups"]:
                return {"groups": until_it_passes(lambda: [*listed_groups(self._cluster)])}
            case ["groups", group_id]:
                return until_it_passes(lambda: described_group(self._cluster, group_id))
            case ["coordinators", name]:
                kind = TRANSACTION if query.get("of") == "transaction" else GROUP
                node_id, _ = until_it_passes(lambda: self._cluster.coordinator(name, kind))
                return {"coordinator": node_id}
            case ["wait", *what]:
                return self._wait(what, **query)
        raise _refused(segments)

    def post(self, *segments: object, **fields: object) -> Any:
        """Have something made.  Raises: AdminError, BrokerFailed."""
        match [str(segment) for segment in segments]:
            case ["topics"]:
                return self._create(**fields)
            case ["topics", name, "records"]:
                given: Any = fields["records"]
                made = [_record(fields.get("encoding") == BASE64, **each) for each in given]
                return {"records": [self._write(name, *each) for each in made]}
        raise _refused(segments)

    def delete(self, *segments: object, **query: object) -> Any:
        """Have something deleted.  Raises: AdminError, BrokerFailed."""
        match [str(segment) for segment in segments]:
            case ["topics", name]:
                return self._delete(name)
        raise _refused(segments)

    def close(self) -> None:
        """Nothing stays open."""

    # -- topics

    def _topics(self) -> Iterator[Any]:
        for told in sorted(self._cluster.metadata().topics, key=lambda each: each.name or ""):
            if not told.is_internal:
                yield _shown_topic(told)

    def _topic(self, name: str) -> Any:
        told = self._cluster.topic(name)
        if told is None:
            raise NotFound(HTTPStatus.NOT_FOUND, f"there is no topic {name!r}")
        return _shown_topic(told)

    def _create(
        self,
        *,
        name: Any,
        partitions: Any = -1,
        replication_factor: Any = -1,
        configs: Any = None,
    ) -> Any:
        asked = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[
                CreatableTopicConfig(name=key, value=text_of(value))
                for key, value in (configs or {}).items()
            ],
        )
        request = CreateTopicsRequest(topics=[asked], timeout_ms=TIMEOUT_MS)

        def ask() -> int:
            address = self._cluster.controller()
            told = self._cluster.ask(address, request, CreateTopicsResponse, at_most=5)
            code = told.topics[0].error_code
            if code == ErrorCode.TOPIC_ALREADY_EXISTS and self._cluster.topic(name) is None:
                raise NotYet(f"topic {name} is still being deleted")
            check(code, told.topics[0].error_message, f"topic {name}")
            return told.topics[0].num_partitions

        count = until_it_passes(ask)
        return _until(TIMEOUT_MS / 1000, lambda: self._led(name, count))

    def _delete(self, name: str) -> Any:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)

        def ask() -> None:
            address = self._cluster.controller()
            told = self._cluster.ask(address, request, DeleteTopicsResponse, at_most=5)
            if told.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise NotFound(HTTPStatus.NOT_FOUND, f"there is no topic {name!r}")
            check(told.responses[0].error_code, told.responses[0].error_message, f"topic {name}")

        def gone() -> Any:
            if self._cluster.topic(name) is not None:
                raise NotYet(f"topic {name} is still there")
            return {}

        until_it_passes(ask)
        return _until(TIMEOUT_MS / 1000, gone)

    def _led(self, name: str, count: int = 1) -> Any:
        """The topic, if all of its partitions have leaders.  Raises: NotYet."""
        told = self._cluster.topic(name)
        if told is None:
            raise NotYet(f"there is no topic {name!r}")
        leaders = [each.leader_id for each in told.partitions]
        if len(leaders) < count or -1 in leaders:
            raise NotYet(f"topic {name} has partitions without a leader")
        return _shown_topic(told)

    # -- records

    def _read(
        self,
        topic: str,
        *,
        partition: Any = None,
        offset: Any = 0,
        isolation: Any = "read_uncommitted",
        limit: Any = 1000,
        encoding: Any,
    ) -> Any:
        assert encoding == BASE64  # as all typed clients ask
        known = [each["partition"] for each in self._topic(topic)["partitions"]]
        shown: list[Any] = []
        ends: list[Any] = []
        for number in known if partition is None else [partition]:
            if number not in known:
                raise NotFound(HTTPStatus.NOT_FOUND, f"there is no partition {topic}-{number}")
            left = limit - len(shown)
            records, end = read(
                self._cluster, topic, number, offset=offset, isolation=isolation, limit=left
            )
            shown += records
            ends.append(end)
        return {"records": shown, "partitions": ends}

    def _write(self, topic: str, made: Record, partition: int | None) -> Any:
        count = len(self._topic(topic)["partitions"])
        if partition is None:
            partition = 0 if made.key is None else partition_of_key(bytes(made.key), count)
        if partition >= count:
            raise NotFound(HTTPStatus.NOT_FOUND, f"there is no partition {topic}-{partition}")
        data = PartitionProduceData(index=partition, records=memoryview(build_batch([made])))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )

        def ask() -> int:
            leader = self._cluster.leader(topic, partition)
            told = self._cluster.ask(leader, request, ProduceResponse, at_most=8)
            result = told.responses[0].partition_responses[0]
            check(result.error_code, result.error_message, f"{topic}-{partition}")
            return result.base_offset

        return {"partition": partition, "offset": until_it_passes(ask)}

    # -- waits

    def _wait(self, what: Sequence[str], *, timeout: Any, **wanted: Any) -> Any:
        match what:
            case ["topics", name]:
                return _until(seconds_of(timeout), lambda: self._led(name))
            case ["topics", name, "records"]:
                return _until(seconds_of(timeout), lambda: self._counted(name, **wanted))
            case ["groups", group_id]:
                return _until(seconds_of(timeout), lambda: self._stable(group_id, **wanted))
            case ["groups", group_id, "lag"]:
                return _until(seconds_of(timeout), lambda: self._behind(group_id, **wanted))
        raise _refused(what)

    def _counted(self, topic: str, *, count: int, isolation: str) -> Any:
        numbers = [each["partition"] for each in self._led(topic)["partitions"]]
        found = 0
        for number in numbers:
            found += len(read(self._cluster, topic, number, isolation=isolation)[0])
        if found < count:
            raise NotYet(f"topic {topic} has {found} records, not {count}")
        return {"count": found}

    def _stable(self, group_id: str, *, members: int, assigned: int | None) -> Any:
        try:
            found = described_group(self._cluster, group_id)
        except NotFound:
            raise NotYet(f"there is no group {group_id!r}") from None
        count = sum(len(each) for m in found["members"] for each in m["assignment"].values())
        is_full = assigned is None or count == assigned
        if found["state"] == STABLE and len(found["members"]) == members and is_full:
            return found
        wanted = f"{STABLE} with {members} members"
        wanted += "" if assigned is None else f" and {assigned} partitions"
        there = f"{found['state']} with {len(found['members'])} members and {count} partitions"
        raise NotYet(f"group {group_id} is {there}, not {wanted}")

    def _behind(self, group_id: str, *, lag: int, topic: str | None) -> Any:
        try:
            offsets = described_group(self._cluster, group_id)["offsets"]
        except NotFound:
            offsets = []
        committed = {(each["topic"], each["partition"]): each["offset"] for each in offsets}
        names = {name for name, _ in committed} if topic is None else {topic}
        if not names:
            raise NotYet(f"group {group_id} has committed nothing, and may lag by {lag}")
        behind = 0
        for name in names:
            for each in self._led(name)["partitions"]:
                number = each["partition"]
                end = offset_at(self._cluster, name, number, LATEST)
                behind += max(0, end - committed.get((name, number), 0))
        if behind > lag:
            raise NotYet(f"group {group_id} lags by {behind} records, and may lag by {lag}")
        return {"lag": behind}


class ForeignAdmins(AdminClients):
    """The one `ForeignAdmin`, where others have a client for each process."""

    def __init__(self, cluster: ClusterClient) -> None:
        super().__init__(lambda: [], "")
        self._client = ForeignAdmin(cluster)

    def __iter__(self) -> Iterator[AdminClient]:
        yield self._client

    def patient(self, timeout_s: float) -> AdminClients:
        """The same: a wait asks often, and each time shortly."""
        return self


def _until(timeout_s: float, look: Callable[[], Any]) -> Any:
    """What `look` returns once it raises nothing that may pass.  Raises: AdminError."""
    try:
        return until(look, timeout_s)
    except Passing as passing:
        sentence = f"after {timeout_s:g} s {passing}"
        raise AdminError(HTTPStatus.GATEWAY_TIMEOUT, sentence) from None


def _refused(segments: Sequence[object]) -> AdminError:
    what = _WHAT.get(str(segments[0]), "other brokers have no such thing")
    return AdminError(HTTPStatus.NOT_IMPLEMENTED, NEEDS_ADMIN % what)


def _shown_topic(told: Any) -> Any:
    partitions = [
        {
            "partition": each.partition_index,
            "leader": each.leader_id,
            "leader_epoch": each.leader_epoch,
            "replicas": list(each.replica_nodes),
            "isr": list(each.isr_nodes),
        }
        for each in sorted(told.partitions, key=lambda each: each.partition_index)
    ]
    return {"name": told.name, "partitions": partitions}


def _record(
    is_base64: bool,
    *,
    value: str | None,
    key: str | None = None,
    headers: Sequence[Any] = (),
    partition: int | None = None,
    timestamp: int | None = None,
) -> tuple[Record, int | None]:
    """A record, and the partition that is asked for."""

    def data(text: str | None) -> bytes | None:
        if text is None:
            return None
        return base64.b64decode(text) if is_base64 else text.encode()

    wall_ms = int(time.time() * 1000) if timestamp is None else timestamp
    pairs = [(name, data(each)) for name, each in headers]
    return Record(0, wall_ms, data(key), data(value), pairs), partition
