"""What an administrator asks of a laboratory cluster; every answer must be free of errors."""

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.k33_alter_configs import (
    AlterableConfig as ReplacedConfig,
)
from odradek.protocol.messages.k33_alter_configs import (
    AlterConfigsRequest,
)
from odradek.protocol.messages.k33_alter_configs import (
    AlterConfigsResource as ReplacedResource,
)
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)

from .asking import Askable, by_topic

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
TIMEOUT_MS: Final = 20_000
SHORT_MS: Final = 500
PREFERRED: Final = 0
PUT, REMOVE, APPEND, SUBTRACT = range(4)


def create_topic(
    lab: Askable,
    name: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    assignment: Sequence[Sequence[int]] = (),
    configs: Mapping[str, str] | None = None,
) -> None:
    """By counts, or by hand: the replicas of each partition."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(assignment)
        ],
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
    )
    lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 7)


def add_partitions(
    lab: Askable, name: str, *, count: int, assignment: Sequence[Sequence[int]]
) -> None:
    """Up to `count` in all; the replicas of the new ones."""
    replicas = [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in assignment]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=replicas)
    lab.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 3)


def delete_topic(lab: Askable, name: str, *, wait: bool = True) -> None:
    """Ask for it, and wait until it is done, or only until it is noted."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS if wait else SHORT_MS
    )
    lab.ask(request, 6, accepted=() if wait else (ErrorCode.REQUEST_TIMED_OUT,))


def alter_configs(
    lab: Askable,
    kind: int,
    name: str,
    *,
    put: Mapping[str, str] | None = None,
    subtract: Mapping[str, str] | None = None,
    remove: Sequence[str] = (),
    broker: int = 0,
) -> None:
    """IncrementalAlterConfigs of one topic or broker ("" is the default of all)."""
    changes = [(key, PUT, value) for key, value in (put or {}).items()]
    changes += [(key, SUBTRACT, value) for key, value in (subtract or {}).items()]
    configs = [AlterableConfig(name=k, config_operation=o, value=v) for k, o, v in changes]
    configs += [AlterableConfig(name=key, config_operation=REMOVE, value=None) for key in remove]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    lab.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1, broker=broker)


def replace_configs(
    lab: Askable, kind: int, name: str, configs: Mapping[str, str], *, broker: int = 0
) -> None:
    """AlterConfigs: what is not named is removed."""
    resource = ReplacedResource(
        resource_type=kind,
        resource_name=name,
        configs=[ReplacedConfig(name=key, value=value) for key, value in configs.items()],
    )
    lab.ask(AlterConfigsRequest(resources=[resource]), 2, broker=broker)


def describe_configs(
    lab: Askable, kind: int, name: str, keys: Sequence[str], *, broker: int
) -> dict[str, str | None]:
    """Some settings of a topic or a broker, as `broker` knows them."""
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[*keys]
    )
    answer = lab.ask(DescribeConfigsRequest(resources=[resource]), 4, broker=broker)
    (result,) = answer.results
    return {config.name: config.value for config in result.configs}


def alter_quotas(
    lab: Askable, entity: Mapping[str, str | None], quotas: Mapping[str, float | None]
) -> None:
    """Set quotas of an entity, or remove those that are None."""
    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=k, value=v or 0.0, remove=v is None) for k, v in quotas.items()],
    )
    lab.ask(AlterClientQuotasRequest(entries=[entry]), 1, broker=0)


def reassign(lab: Askable, targets: Mapping[tuple[str, int], Sequence[int] | None]) -> None:
    """Give partitions other replicas; None calls the move off that is under way."""
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(
                    partition_index=index, replicas=None if replicas is None else list(replicas)
                )
                for index, replicas in partitions.items()
            ],
        )
        for name, partitions in by_topic(targets).items()
    ]
    lab.ask(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 0)


def elect_preferred(lab: Askable, partitions: Mapping[str, Sequence[int]] | None) -> None:
    """Let the first replica lead; None: wherever it does not. It may be about to."""
    topics = None
    if partitions is not None:
        topics = [TopicPartitions(topic=t, partitions=list(p)) for t, p in partitions.items()]
    lab.ask(
        ElectLeadersRequest(
            election_type=PREFERRED, topic_partitions=topics, timeout_ms=TIMEOUT_MS
        ),
        2,
        accepted=[ErrorCode.ELECTION_NOT_NEEDED],
    )
