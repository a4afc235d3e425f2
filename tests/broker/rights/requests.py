"""The requests of the matrix of rights, and what of their answers counts.

Each request has the same answer when it is sent again by somebody with the same rights. Where it is
allowed, it changes nothing or fails for another reason.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.k04_leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.k05_stop_replica import StopReplicaRequest
from odradek.protocol.messages.k06_update_metadata import UpdateMetadataRequest
from odradek.protocol.messages.k07_controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.k29_describe_acls import DescribeAclsRequest
from odradek.protocol.messages.k30_create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.k35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from odradek.protocol.messages.k38_create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from odradek.protocol.messages.k39_renew_delegation_token import RenewDelegationTokenRequest
from odradek.protocol.messages.k40_expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.k41_describe_delegation_token import DescribeDelegationTokenRequest
from odradek.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from odradek.protocol.messages.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from odradek.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from odradek.protocol.messages.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from odradek.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from odradek.protocol.messages.k56_alter_partition import AlterPartitionRequest
from odradek.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.k61_describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from odradek.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.k66_list_transactions import ListTransactionsRequest
from odradek.protocol.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from odradek.protocol.messages.k75_describe_topic_partitions import TopicRequest as TopicPage
from odradek.protocol.schema import Message, Struct
from tests.broker import requests as single
from tests.broker.group_requests import (
    commit,
    delete_offsets,
    fetch_offsets,
    join,
    leave,
    sync,
    txn_commit,
)
from tests.broker.requests import STALE, TIMEOUT_MS
from tests.broker.transaction_requests import (
    add_offsets,
    add_partitions,
    ask_of_partitions,
    end,
    init_producer,
    produce_in_transaction,
    write_markers,
)
from tests.support.messages import (
    batch_of,
    creatable,
    delete_records,
    fetch_request,
    list_offsets,
    produce_request,
)

TOPIC: Final = "orders"
ABSENT: Final = "absent"
GROUP: Final = "members"
GROUP_CONFIGS: Final = 32
TRANSACTIONAL_ID: Final = "payments"
NO_PRODUCER: Final = (1_000_000, 0)
FRESH: Final = "fresh"
"""A topic that each user may try to create, or to delete, anew."""

NAMES: Final = frozenset(
    {"name", "topic", "topic_name", "group_id", "transactional_id", "resource_name", "key"}
)


@dataclass(frozen=True)
class Ids:
    """What some requests must name: the id of TOPIC, and that of FRESH if it exists."""

    topic: bytes
    fresh: bytes = b""


@dataclass(frozen=True)
class Case:
    """A request in one version."""

    name: str
    version: int
    build: Callable[[Ids], Message]
    needs_fresh: bool | None = None
    """Whether the topic FRESH exists before; None: it does not matter."""
    kafka: str = "3.9.2"
    """The version of Kafka that is asked; 4.3.1 for what 3.9 does not have in ZooKeeper mode."""


def _both(make: Callable[[str], Any], field: str = "topics") -> Callable[[Ids], Message]:
    """A request about a topic that exists and one that does not."""

    def build(ids: Ids) -> Message:
        request: Message = make(TOPIC)
        getattr(request, field).extend(getattr(make(ABSENT), field))
        return request

    return build


def _produce(topic: str) -> Message:
    return produce_request(topic, {0: batch_of(b"v")})


def _without_id(ids: Ids) -> Message:
    request = produce_in_transaction(TRANSACTIONAL_ID, NO_PRODUCER, TOPIC)
    request.transactional_id = None
    return request


def _follow(version: int) -> Callable[[Ids], Message]:
    def build(ids: Ids) -> Message:
        request = fetch_request(TOPIC)
        request.replica_id = 5
        return request

    return build


def _metadata(*topics: str, create: bool = False, operations: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=topic) for topic in topics] if topics else None,
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=operations,
        include_topic_authorized_operations=operations,
    )


def _create(*names: str, validate_only: bool = True) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[creatable(name) for name in names],
        timeout_ms=TIMEOUT_MS,
        validate_only=validate_only,
    )


def _always(request: Message) -> Callable[[Ids], Message]:
    return lambda ids: request


def _config_requests() -> list[Case]:
    cases: list[Case] = []
    for kind, name in ((2, TOPIC), (2, ABSENT), (4, "0"), (8, "0")):
        label = f"{kind}-{name}"
        describe = single.describe_configs(kind, name, "none")
        cases.append(Case(f"DescribeConfigs {label}", 4, _always(describe)))
        change = single.change_configs(kind, name, validate_only=True)
        cases.append(Case(f"IncrementalAlterConfigs {label}", 1, _always(change)))
        if kind != 8:
            alter = single.alter_configs(kind, name, {}, validate_only=True)
            cases.append(Case(f"AlterConfigs {label}", 2, _always(alter)))
    return cases


def _group_config_requests() -> list[Case]:
    describe = single.describe_configs(GROUP_CONFIGS, GROUP, "none")
    change = single.change_configs(GROUP_CONFIGS, GROUP, validate_only=True)
    nameless = single.change_configs(GROUP_CONFIGS, "", validate_only=True)
    alter = single.alter_configs(GROUP_CONFIGS, GROUP, {}, validate_only=True)
    cases = (
        Case("AlterConfigs of a group", 2, _always(alter)),
        Case("DescribeConfigs of a group", 4, _always(describe)),
        Case("IncrementalAlterConfigs of a group", 1, _always(change)),
        Case("IncrementalAlterConfigs of no group", 1, _always(nameless)),
    )
    return [replace(case, kafka="4.3.1") for case in cases]


def _token_requests() -> list[Case]:
    """Delegation tokens are not built, and Kafka has none without a key for them."""

    def create(owner: str | None = None, renewer: str = "User") -> Callable[[Ids], Message]:
        return _always(
            CreateDelegationTokenRequest(
                owner_principal_type=owner and "User",
                owner_principal_name=owner,
                renewers=[CreatableRenewers(principal_type=renewer, principal_name="somebody")],
            )
        )

    return [
        Case("CreateDelegationToken", 3, create()),
        Case("CreateDelegationToken for another", 3, create("somebody")),
        Case("CreateDelegationToken for nobody's renewal", 3, create(renewer="Group")),
        Case("CreateDelegationToken", 1, create()),
        Case("RenewDelegationToken", 2, _always(RenewDelegationTokenRequest(hmac=b"x"))),
        Case("ExpireDelegationToken", 2, _always(ExpireDelegationTokenRequest(hmac=b"x"))),
        Case("DescribeDelegationToken", 3, _always(DescribeDelegationTokenRequest())),
        Case(
            "DescribeDelegationToken of some", 1, _always(DescribeDelegationTokenRequest(owners=[]))
        ),
    ]


def _requests_of_kraft() -> list[Case]:
    """What Kafka 3.9 does not serve in ZooKeeper mode."""
    beat = ConsumerGroupHeartbeatRequest(
        group_id="other", member_id="nobody", member_epoch=1, subscribed_topic_names=[TOPIC, ABSENT]
    )
    describe = ConsumerGroupDescribeRequest(
        group_ids=[GROUP, "other"], include_authorized_operations=True
    )
    topics = [TopicPage(name=name) for name in (TOPIC, ABSENT)]
    cases = (
        Case("ConsumerGroupHeartbeat", 1, _always(beat)),
        Case("ConsumerGroupDescribe", 1, _always(describe)),
        Case("DescribeTopicPartitions", 0, _always(DescribeTopicPartitionsRequest(topics=topics))),
        Case("DescribeTopicPartitions of all", 0, _always(DescribeTopicPartitionsRequest())),
    )
    return [replace(case, kafka="4.3.1") for case in cases]


def _groups_of(group_id: str, *topics: str) -> OffsetFetchRequest:
    asked = [fetch_offsets(group_id, topic, 0) for topic in topics]
    request = asked[0]
    request.topics = [topic for each in asked for topic in each.topics or ()]
    request.groups[0].topics = [topic for each in asked for topic in each.groups[0].topics or ()]
    return request


CASES: Final = [
    Case("Produce", 11, _both(_produce, "topic_data")),
    Case(
        "Produce transactional",
        11,
        lambda ids: produce_in_transaction(TRANSACTIONAL_ID, NO_PRODUCER, TOPIC),
    ),
    Case("Produce transactional without id", 11, _without_id),
    Case("Fetch", 12, _both(fetch_request)),
    Case("Fetch by id", 16, lambda ids: fetch_request(ids.topic)),
    Case("Fetch of a follower", 12, _follow(12)),
    Case("ListOffsets", 7, _both(lambda topic: list_offsets(topic, -1))),
    Case("ListOffsets", 0, _both(lambda topic: list_offsets(topic, -1))),
    Case("Metadata of all", 9, lambda ids: _metadata(operations=True)),
    Case("Metadata of all", 0, lambda ids: MetadataRequest(topics=[])),
    Case("Metadata", 9, lambda ids: _metadata(TOPIC, ABSENT, operations=True)),
    Case("Metadata", 0, lambda ids: _metadata(TOPIC)),
    Case(
        "Metadata by id",
        12,
        lambda ids: MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=ids.topic)]),
    ),
    Case("LeaderAndIsr", 7, lambda ids: LeaderAndIsrRequest(controller_epoch=STALE)),
    Case("StopReplica", 3, lambda ids: StopReplicaRequest(controller_epoch=STALE)),
    Case("UpdateMetadata", 8, lambda ids: UpdateMetadataRequest(controller_epoch=STALE)),
    Case("ControlledShutdown", 3, lambda ids: ControlledShutdownRequest(broker_id=99)),
    Case("OffsetCommit", 8, _both(lambda topic: commit(GROUP, topic, {0: 0}))),
    Case("OffsetFetch", 8, lambda ids: _groups_of(GROUP, TOPIC, ABSENT)),
    Case(
        "OffsetFetch of all",
        8,
        lambda ids: OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)]
        ),
    ),
    Case("OffsetFetch", 7, lambda ids: _groups_of(GROUP, TOPIC, ABSENT)),
    Case("OffsetFetch", 1, lambda ids: _groups_of(GROUP, TOPIC, ABSENT)),
    Case(
        "FindCoordinator of groups",
        4,
        lambda ids: FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP, "other"]),
    ),
    Case(
        "FindCoordinator of transactional ids",
        4,
        lambda ids: FindCoordinatorRequest(key_type=1, coordinator_keys=[TRANSACTIONAL_ID]),
    ),
    Case("FindCoordinator of groups", 3, lambda ids: FindCoordinatorRequest(key=GROUP)),
    Case("JoinGroup", 7, lambda ids: join("other", session_ms=1)),
    Case("Heartbeat", 4, lambda ids: HeartbeatRequest(group_id=GROUP, member_id="nobody")),
    Case("LeaveGroup", 4, lambda ids: leave(GROUP, "nobody")),
    Case("SyncGroup", 5, lambda ids: sync(GROUP, 1, "nobody")),
    Case(
        "DescribeGroups",
        5,
        lambda ids: DescribeGroupsRequest(
            groups=[GROUP, "other"], include_authorized_operations=True
        ),
    ),
    Case("ListGroups", 4, lambda ids: ListGroupsRequest()),
    Case("ApiVersions", 3, lambda ids: ApiVersionsRequest()),
    Case("CreateTopics", 7, lambda ids: _create("fresh-one", TOPIC)),
    Case("CreateTopics", 4, lambda ids: _create("fresh-one", TOPIC)),
    Case("DeleteTopics", 5, lambda ids: DeleteTopicsRequest(topic_names=[ABSENT])),
    Case(
        "DeleteTopics of no id",
        6,
        lambda ids: DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=bytes(15) + b"\x09")]),
    ),
    Case("DeleteRecords", 2, lambda ids: delete_records((TOPIC, 0, 0), (ABSENT, 0, 0))),
    Case("InitProducerId", 4, lambda ids: init_producer(None)),
    Case("InitProducerId with an id", 4, lambda ids: init_producer(TRANSACTIONAL_ID, timeout_ms=0)),
    Case("OffsetForLeaderEpoch", 4, _both(lambda t: single.offset_for_leader_epoch(t, 0))),
    Case(
        "AddPartitionsToTxn",
        3,
        lambda ids: add_partitions(TRANSACTIONAL_ID, NO_PRODUCER, TOPIC, 0),
    ),
    Case(
        "AddPartitionsToTxn of an absent one",
        3,
        _both(
            lambda topic: add_partitions(TRANSACTIONAL_ID, NO_PRODUCER, topic, 0),
            "v3_and_below_topics",
        ),
    ),
    Case(
        "AddPartitionsToTxn of a broker",
        4,
        lambda ids: ask_of_partitions(TRANSACTIONAL_ID, NO_PRODUCER, TOPIC, 0),
    ),
    Case("AddOffsetsToTxn", 3, lambda ids: add_offsets(TRANSACTIONAL_ID, NO_PRODUCER, GROUP)),
    Case("EndTxn", 3, lambda ids: end(TRANSACTIONAL_ID, NO_PRODUCER)),
    Case("WriteTxnMarkers", 1, lambda ids: write_markers(NO_PRODUCER, ABSENT, 0)),
    Case(
        "TxnOffsetCommit",
        3,
        _both(lambda topic: txn_commit(GROUP, topic, {0: 0}, producer_id=NO_PRODUCER[0])),
    ),
    Case(
        "DescribeAcls",
        3,
        lambda ids: DescribeAclsRequest(
            resource_type_filter=2,
            resource_name_filter="none",
            pattern_type_filter=3,
            operation=1,
            permission_type=1,
        ),
    ),
    Case(
        "CreateAcls",
        3,
        lambda ids: CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=2,
                    resource_name="",
                    principal="User:a",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
            ]
        ),
    ),
    Case(
        "DeleteAcls",
        3,
        lambda ids: DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter="none",
                    operation=1,
                    permission_type=1,
                )
            ]
        ),
    ),
    *_config_requests(),
    *_group_config_requests(),
    Case("AlterReplicaLogDirs", 2, lambda ids: single.alter_log_dirs("/absent", (TOPIC, 0))),
    *(
        Case(
            "DescribeLogDirs",
            version,
            lambda ids: DescribeLogDirsRequest(
                topics=[DescribableLogDirTopic(topic=TOPIC, partitions=[0])]
            ),
        )
        for version in (1, 4)
    ),
    Case(
        "CreatePartitions",
        3,
        _both(lambda topic: single.create_partitions(topic, 2, validate_only=True)),
    ),
    Case("DeleteGroups", 2, lambda ids: DeleteGroupsRequest(groups_names=["other"])),
    Case(
        "ElectLeaders",
        2,
        lambda ids: ElectLeadersRequest(
            topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[0])], timeout_ms=TIMEOUT_MS
        ),
    ),
    Case(
        "AlterPartitionReassignments",
        0,
        lambda ids: AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=TOPIC,
                    partitions=[ReassignablePartition(partition_index=0, replicas=None)],
                )
            ]
        ),
    ),
    Case("ListPartitionReassignments", 0, lambda ids: ListPartitionReassignmentsRequest()),
    Case(
        "DescribeClientQuotas",
        1,
        lambda ids: DescribeClientQuotasRequest(
            components=[ComponentData(entity_type="user", match_type=2, match=None)]
        ),
    ),
    Case(
        "AlterClientQuotas",
        1,
        lambda ids: AlterClientQuotasRequest(
            entries=[
                EntryData(
                    entity=[EntityData(entity_type="user", entity_name="someone")],
                    ops=[OpData(key="producer_byte_rate", value=1e6)],
                )
            ],
            validate_only=True,
        ),
    ),
    Case(
        "DescribeUserScramCredentials",
        0,
        lambda ids: DescribeUserScramCredentialsRequest(users=[UserName(name="nobody")]),
    ),
    Case(
        "AlterUserScramCredentials",
        0,
        lambda ids: AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="nobody", mechanism=1)]
        ),
    ),
    Case("AlterPartition", 3, lambda ids: AlterPartitionRequest(broker_id=0, broker_epoch=0)),
    Case(
        "AllocateProducerIds",
        0,
        lambda ids: AllocateProducerIdsRequest(broker_id=0, broker_epoch=0),
    ),
    Case(
        "DescribeCluster",
        1,
        lambda ids: DescribeClusterRequest(include_cluster_authorized_operations=True),
    ),
    Case(
        "DescribeProducers",
        0,
        _both(
            lambda topic: DescribeProducersRequest(
                topics=[TopicRequest(name=topic, partition_indexes=[0])]
            )
        ),
    ),
    Case(
        "DescribeTransactions",
        0,
        lambda ids: DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID, "other"]),
    ),
    Case("ListTransactions", 1, lambda ids: ListTransactionsRequest()),
    *_token_requests(),
    *_requests_of_kraft(),
    # These change something.
    Case("OffsetDelete", 0, _both(lambda topic: delete_offsets(GROUP, topic, 0))),
    Case("Metadata creates", 9, lambda ids: _metadata(FRESH, create=True), needs_fresh=False),
    Case(
        "DeleteTopics by id",
        6,
        lambda ids: DeleteTopicsRequest(
            topics=[DeleteTopicState(topic_id=ids.fresh)], timeout_ms=TIMEOUT_MS
        ),
        needs_fresh=True,
    ),
    Case(
        "DeleteTopics by name",
        6,
        lambda ids: single.delete_topics(6, FRESH),
        needs_fresh=True,
    ),
]


def picture(value: Any) -> Any:
    """The error codes, names and bit sets of an answer; the order of its items does not count."""
    if isinstance(value, list):
        parts = [part for part in map(picture, value) if part not in ({}, [])]
        return sorted(parts, key=lambda part: json.dumps(part, sort_keys=True))
    if not isinstance(value, Struct):
        return {}
    shown: dict[str, Any] = {}
    for declared in value.FIELDS:
        name, field = declared.name, getattr(value, declared.name)
        if name.endswith(("error_code", "authorized_operations")):
            if field:
                shown[name] = int(field)
        elif name in NAMES and isinstance(field, str):
            shown[name] = field
        elif isinstance(field, list | Struct) and (part := picture(field)):
            shown[name] = part
    return shown
