"""Parsing a Fetch: its sender, its session and partitions, and how to look them up."""

from collections.abc import Sequence

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k01_fetch import FetchRequest
from odradek.protocol.records import Codec

from ..core.acls.terms import Operation
from ..core.fetch_reads import Lookup
from ..core.fetch_session import FetchContext, Key, PartitionFetch, is_sessionless
from ..core.followers import FetchingReplica
from ..core.partition import Partition
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights

RECORDS_V2_VERSION_FIRST = 4
SESSION_VERSION_FIRST = 7
ZSTD_VERSION_FIRST = 10
TOPIC_ID_VERSION_FIRST = 13
REPLICA_STATE_VERSION_FIRST = 15
NO_EPOCH = -1


def replica_id_of(request: FetchRequest, version: int) -> int:
    """The id of the fetching broker; negative for a consumer."""
    by_state = version >= REPLICA_STATE_VERSION_FIRST
    return request.replica_state.replica_id if by_state else request.replica_id


def replica_of(request: FetchRequest, version: int, node: Node) -> FetchingReplica | None:
    """The fetching replica; None if the request is from a consumer."""
    replica_id = replica_id_of(request, version)
    if replica_id < 0:
        return None
    return FetchingReplica(
        replica_id,
        is_alive=replica_id in node.metadata.brokers,
        now_ms=node.clock.now_ms(),
        lag_max_ms=node.config.replica_lag_time_max_ms,
    )


def begin_fetch(
    request: FetchRequest, version: int, node: Node, *, is_follower: bool
) -> FetchContext:
    """Begin a Fetch: without a session, or as the next one of its session.

    `is_follower`: whether a new session may evict that of a consumer.
    """
    by_id = version >= TOPIC_ID_VERSION_FIRST
    wanted = _wanted(request, by_id)
    if version < SESSION_VERSION_FIRST or is_sessionless(request.session_id, request.session_epoch):
        return FetchContext(wanted)
    return node.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        wanted,
        _forgotten(request, by_id),
        uses_topic_ids=by_id,
        is_follower=is_follower,
        now_ms=node.clock.now_ms(),
    )


def _wanted(request: FetchRequest, by_id: bool) -> list[PartitionFetch]:
    """The requested partitions; if one is named twice, the last entry counts."""
    wanted: dict[Key, PartitionFetch] = {}
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            key = name, asked.partition
            epoch = asked.current_leader_epoch
            wanted[key] = PartitionFetch(
                key,
                asked.fetch_offset,
                asked.partition_max_bytes,
                epoch if epoch >= 0 else NO_EPOCH,
                asked.last_fetched_epoch,
                asked.log_start_offset,
            )
    return list(wanted.values())


def _forgotten(request: FetchRequest, by_id: bool) -> Sequence[Key]:
    if not request.forgotten_topics_data:
        return ()
    return [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


def lookup_of(call: Call, node: Node, *, is_follower: bool, rights: Rights | None = None) -> Lookup:
    """How the request's partitions are looked up."""
    find = _lookup_of_all(call, node, is_follower=is_follower)
    return find if rights is None else _checking(find, node, rights, is_follower=is_follower)


def _checking(find: Lookup, node: Node, rights: Rights, *, is_follower: bool) -> Lookup:
    """A lookup that refuses what the client may not read, each time it is about to be read."""

    def check(topic: str) -> None:
        if is_follower:
            is_allowed = rights.cluster(Operation.CLUSTER_ACTION)
        else:
            is_allowed = rights.topic(Operation.READ, topic)
        if not is_allowed:
            raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def find_if_allowed(fetch: PartitionFetch) -> Partition:
        topic = fetch.topic
        name = topic if isinstance(topic, str) else node.metadata.topic_name(topic)
        if name is not None:
            check(name)
            return find(fetch)
        partition = find(fetch)  # it is being deleted
        check(partition.state.topic)
        return partition

    return find_if_allowed


def _lookup_of_all(call: Call, node: Node, *, is_follower: bool) -> Lookup:
    version = call.version
    find = node.find_by_name if version < TOPIC_ID_VERSION_FIRST else node.find_by_id
    if version < RECORDS_V2_VERSION_FIRST:
        if is_follower:  # no follower uses these versions
            return _refusing(find, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return _refusing(find, ErrorCode.UNSUPPORTED_VERSION)
    if version < ZSTD_VERSION_FIRST:
        return _refusing_zstd(find)
    return find


def _refusing_zstd(find: Lookup) -> Lookup:
    """A lookup that refuses partitions whose topic stores zstd, by its settings, as in Kafka."""

    def refuse(fetch: PartitionFetch) -> Partition:
        partition = find(fetch)
        compression = partition.config.compression
        if compression is not None and compression.codec == Codec.ZSTD:
            raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        return partition

    return refuse


def _refusing(find: Lookup, code: ErrorCode) -> Lookup:
    """A lookup that refuses every partition that exists."""

    def refuse(fetch: PartitionFetch) -> Partition:
        find(fetch)
        raise Refused(code)

    return refuse
