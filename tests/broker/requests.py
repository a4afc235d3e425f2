"""A sensible request of every API, for a broker that has the topic TOPIC with one partition."""

from collections.abc import Callable, Mapping
from typing import Final

from odradek.broker.handlers.k24_add_partitions_to_txn import BROKERS_VERSION_FIRST
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.k04_leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.k05_stop_replica import StopReplicaRequest
from odradek.protocol.messages.k06_update_metadata import UpdateMetadataRequest
from odradek.protocol.messages.k07_controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest
from odradek.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.messages.k29_describe_acls import DescribeAclsRequest
from odradek.protocol.messages.k30_create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.k33_alter_configs import AlterableConfig as ReplacedConfig
from odradek.protocol.messages.k33_alter_configs import AlterConfigsRequest
from odradek.protocol.messages.k33_alter_configs import AlterConfigsResource as ReplacedResource
from odradek.protocol.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.k38_create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.k39_renew_delegation_token import RenewDelegationTokenRequest
from odradek.protocol.messages.k40_expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.k41_describe_delegation_token import DescribeDelegationTokenRequest
from odradek.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.k43_elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
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
)
from odradek.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from odradek.protocol.messages.k56_alter_partition import AlterPartitionRequest
from odradek.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.k61_describe_producers import (
    DescribeProducersRequest,
)
from odradek.protocol.messages.k61_describe_producers import (
    TopicRequest as ProducersTopic,
)
from odradek.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.k66_list_transactions import ListTransactionsRequest
from odradek.protocol.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from odradek.protocol.messages.k20001_describe_group_journal import DescribeGroupJournalRequest
from odradek.protocol.messages.k20002_describe_log_ends import (
    DescribeLogEndsRequest,
    LogEndsTopic,
)
from odradek.protocol.messages.k20003_describe_transaction_journal import (
    DescribeTransactionJournalRequest,
)
from odradek.protocol.schema import Message
from tests.support.connections import TIMEOUT_S
from tests.support.messages import (
    batch_of,
    creatable,
    delete_records,
    fetch_request,
    list_offsets,
    produce_request,
)

from .group_requests import (
    commit,
    consumer_heartbeat,
    delete_offsets,
    fetch_offsets,
    join,
    leave,
    sync,
    txn_commit,
)
from .transaction_requests import (
    add_offsets,
    add_partitions,
    ask_of_partitions,
    end,
    write_markers,
)

TOPIC: Final = "orders"
STALE: Final = -1  # the epoch of no controller: this one may change nothing
TIMEOUT_MS: Final = TIMEOUT_S * 1000


def metadata(*topics: str, create: bool = False) -> MetadataRequest:
    """Ask for topics by name."""
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=create,
    )


def offset_for_leader_epoch(
    topic: str, leader_epoch: int, *, current_leader_epoch: int = -1
) -> OffsetForLeaderEpochRequest:
    """Ask for the end of a leader epoch in partition 0."""
    asked = OffsetForLeaderPartition(
        partition=0, current_leader_epoch=current_leader_epoch, leader_epoch=leader_epoch
    )
    return OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])]
    )


def describe_configs(kind: int, name: str, *keys: str) -> DescribeConfigsRequest:
    """Ask for some settings of a resource, or all."""
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )


def alter_configs(
    kind: int, name: str, configs: Mapping[str, str | None], *, validate_only: bool = False
) -> AlterConfigsRequest:
    """Replace all settings of a resource."""
    replaced = [ReplacedConfig(name=key, value=value) for key, value in configs.items()]
    resource = ReplacedResource(resource_type=kind, resource_name=name, configs=replaced)
    return AlterConfigsRequest(resources=[resource], validate_only=validate_only)


def change_configs(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """Change single settings of a resource: name, operation, value."""
    configs = [
        AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def delete_topics(version: int, *names: str) -> DeleteTopicsRequest:
    """Delete topics by name."""
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=TIMEOUT_MS)
    states = [DeleteTopicState(name=name) for name in names]
    return DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS)


def create_partitions(
    name: str, count: int, *, validate_only: bool = False
) -> CreatePartitionsRequest:
    """Extend a topic."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(
        topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )


def read_acl(topic: str, principal: str = "User:alice") -> AclCreation:
    """An ACL that lets somebody read a topic."""
    return AclCreation(
        resource_type=2,
        resource_name=topic,
        principal=principal,
        host="*",
        operation=3,
        permission_type=3,
    )


def every_acl() -> DescribeAclsRequest:
    """Show all ACLs."""
    return DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def _fetch(version: int, topic_id: bytes) -> Message:
    return fetch_request(TOPIC if version < 13 else topic_id)


def _coordinator(version: int, topic_id: bytes) -> Message:
    return FindCoordinatorRequest(key="group", coordinator_keys=["group", "other"])


def alter_log_dirs(path: str, *partitions: tuple[str, int]) -> AlterReplicaLogDirsRequest:
    """Have replicas moved to a directory."""
    topics = [AlterReplicaLogDirTopic(name=name, partitions=[p]) for name, p in partitions]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])


def _all_log_dirs(version: int, topic_id: bytes) -> Message:
    return DescribeLogDirsRequest(topics=None)


def _alter_client_quotas(version: int, topic_id: bytes) -> Message:
    quota = OpData(key="producer_byte_rate", value=1e6)
    user = EntityData(entity_type="user", entity_name="someone")
    return AlterClientQuotasRequest(entries=[EntryData(entity=[user], ops=[quota])])


SENSIBLE: Final[dict[int, Callable[[int, bytes], Message]]] = {
    0: lambda version, topic_id: produce_request(TOPIC, {0: batch_of(b"value")}),
    1: _fetch,
    2: lambda version, topic_id: list_offsets(TOPIC, -1),
    3: lambda version, topic_id: metadata(TOPIC),
    4: lambda version, topic_id: LeaderAndIsrRequest(controller_epoch=STALE),
    5: lambda version, topic_id: StopReplicaRequest(controller_epoch=STALE),
    6: lambda version, topic_id: UpdateMetadataRequest(controller_epoch=STALE),
    8: lambda version, topic_id: commit("group", TOPIC, {0: 0}),
    9: lambda version, topic_id: fetch_offsets("group", TOPIC, 0),
    10: _coordinator,
    11: lambda version, topic_id: join(f"joined-{version}"),
    12: lambda version, topic_id: HeartbeatRequest(group_id="group", member_id="nobody"),
    13: lambda version, topic_id: leave("group", "nobody"),
    14: lambda version, topic_id: sync("group", 1, "nobody"),
    15: lambda version, topic_id: DescribeGroupsRequest(groups=["group"]),
    16: lambda version, topic_id: ListGroupsRequest(),
    17: lambda version, topic_id: SaslHandshakeRequest(mechanism="PLAIN"),
    36: lambda version, topic_id: SaslAuthenticateRequest(auth_bytes=b"\0user\0password"),
    50: lambda version, topic_id: DescribeUserScramCredentialsRequest(users=None),
    51: lambda version, topic_id: AlterUserScramCredentialsRequest(),
    18: lambda version, topic_id: ApiVersionsRequest(
        client_software_name="odradek", client_software_version="1.0"
    ),
    19: lambda version, topic_id: CreateTopicsRequest(
        topics=[creatable(f"new-{version}")], timeout_ms=TIMEOUT_MS
    ),
    20: lambda version, topic_id: delete_topics(version, "absent"),
    21: lambda version, topic_id: delete_records((TOPIC, 0, 0)),
    22: lambda version, topic_id: InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000
    ),
    23: lambda version, topic_id: offset_for_leader_epoch(TOPIC, 0),
    24: lambda version, topic_id: (
        ask_of_partitions("absent", (1, 0), TOPIC, 0)
        if version >= BROKERS_VERSION_FIRST
        else add_partitions("absent", (1, 0), TOPIC, 0)
    ),
    25: lambda version, topic_id: add_offsets("absent", (1, 0), "group"),
    26: lambda version, topic_id: end("absent", (1, 0)),
    27: lambda version, topic_id: write_markers((1_000_000, 0), TOPIC, 0),
    28: lambda version, topic_id: txn_commit("in-transaction", TOPIC, {0: 0}, producer_id=7),
    29: lambda version, topic_id: DescribeAclsRequest(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    ),
    30: lambda version, topic_id: CreateAclsRequest(creations=[read_acl(TOPIC)]),
    31: lambda version, topic_id: DeleteAclsRequest(
        filters=[DeleteAclsFilter(resource_type_filter=2, operation=1, permission_type=1)]
    ),
    32: lambda version, topic_id: describe_configs(2, TOPIC),
    33: lambda version, topic_id: alter_configs(2, TOPIC, {"segment.bytes": f"{version + 2000}"}),
    34: lambda version, topic_id: alter_log_dirs("/absent", (TOPIC, 0)),
    35: _all_log_dirs,
    7: lambda version, topic_id: ControlledShutdownRequest(broker_id=99, broker_epoch=0),
    37: lambda version, topic_id: create_partitions(TOPIC, version + 2),
    43: lambda version, topic_id: ElectLeadersRequest(topic_partitions=None),
    45: lambda version, topic_id: AlterPartitionReassignmentsRequest(topics=[]),
    46: lambda version, topic_id: ListPartitionReassignmentsRequest(),
    56: lambda version, topic_id: AlterPartitionRequest(broker_id=0, broker_epoch=0, topics=[]),
    67: lambda version, topic_id: AllocateProducerIdsRequest(broker_id=0, broker_epoch=0),
    48: lambda version, topic_id: DescribeClientQuotasRequest(
        components=[ComponentData(entity_type="user", match_type=2, match=None)]
    ),
    49: _alter_client_quotas,
    38: lambda version, topic_id: CreateDelegationTokenRequest(),
    39: lambda version, topic_id: RenewDelegationTokenRequest(hmac=b"x"),
    40: lambda version, topic_id: ExpireDelegationTokenRequest(hmac=b"x"),
    41: lambda version, topic_id: DescribeDelegationTokenRequest(),
    42: lambda version, topic_id: DeleteGroupsRequest(groups_names=["absent"]),
    47: lambda version, topic_id: delete_offsets("group", TOPIC, 0),
    44: lambda version, topic_id: change_configs(2, TOPIC, ("segment.ms", 0, "86400000")),
    60: lambda version, topic_id: DescribeClusterRequest(),
    61: lambda version, topic_id: DescribeProducersRequest(
        topics=[ProducersTopic(name=TOPIC, partition_indexes=[0])]
    ),
    65: lambda version, topic_id: DescribeTransactionsRequest(transactional_ids=["absent"]),
    66: lambda version, topic_id: ListTransactionsRequest(),
    68: lambda version, topic_id: consumer_heartbeat(f"new-{version}", f"member-{version}"),
    69: lambda version, topic_id: ConsumerGroupDescribeRequest(group_ids=["new-0"]),
    75: lambda version, topic_id: DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)]),
    20001: lambda version, topic_id: DescribeGroupJournalRequest(groups=["joined-0"]),
    20002: lambda version, topic_id: DescribeLogEndsRequest(
        topics=[LogEndsTopic(name=TOPIC, partition_indexes=[0])]
    ),
    20003: lambda version, topic_id: DescribeTransactionJournalRequest(
        transactional_ids=["absent"]
    ),
}
"""By API key: (version, id of TOPIC) -> request."""
