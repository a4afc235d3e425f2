"""Which rights each API needs, as Kafka has it.

`whole` are rights without which the request is refused as a whole; `access.py` checks them. `each`
are rights to the single topics, groups and transactional ids of a request. The API's handler module
checks those in `guarded`, which answers for them one by one.

What only brokers send needs ClusterAction in addition: see `Need` in `handlers/__init__.py`.

Source: KafkaApis, AclApis, ControllerMutationQuota's APIs of Apache Kafka 3.9.2; for KIP-848 those
of 4.3.1.
"""

from typing import Final, NamedTuple

from ..core.acls.terms import Operation, ResourceType


class Right(NamedTuple):
    """An operation on the resource that a field of the request names; without one, the cluster."""

    operation: Operation
    kind: ResourceType
    field: str = ""


class Needed(NamedTuple):
    """The rights that an API needs."""

    whole: tuple[Right, ...] = ()
    each: tuple[Right, ...] = ()


ALTER, ALTER_CONFIGS = Operation.ALTER, Operation.ALTER_CONFIGS
CLUSTER_ACTION, CREATE, DELETE = Operation.CLUSTER_ACTION, Operation.CREATE, Operation.DELETE
DESCRIBE, DESCRIBE_CONFIGS = Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS
IDEMPOTENT_WRITE, READ, WRITE = Operation.IDEMPOTENT_WRITE, Operation.READ, Operation.WRITE


def _cluster(operation: Operation) -> Right:
    return Right(operation, ResourceType.CLUSTER)


def _group(operation: Operation) -> Right:
    return Right(operation, ResourceType.GROUP, "group_id")


def _transactional_id(operation: Operation) -> Right:
    return Right(operation, ResourceType.TRANSACTIONAL_ID, "transactional_id")


def _topics(operation: Operation) -> Right:
    return Right(operation, ResourceType.TOPIC)


def _groups(operation: Operation) -> Right:
    return Right(operation, ResourceType.GROUP)


def _ids(operation: Operation) -> Right:
    return Right(operation, ResourceType.TRANSACTIONAL_ID)


_NOTHING: Final = Needed()
_OF_BROKERS: Final = Needed(whole=(_cluster(CLUSTER_ACTION),))
_OF_MEMBERS: Final = Needed(whole=(_group(READ),))
_CHANGING_CONFIGS: Final = Needed(
    each=(_topics(ALTER_CONFIGS), _groups(ALTER_CONFIGS), _cluster(ALTER_CONFIGS))
)

NEEDED: Final[dict[int, Needed]] = {
    0: Needed(each=(_topics(WRITE), _ids(WRITE))),  # Produce
    1: Needed(each=(_topics(READ),)),  # Fetch
    2: Needed(each=(_topics(DESCRIBE),)),  # ListOffsets
    3: Needed(each=(_topics(DESCRIBE), _topics(CREATE), _cluster(CREATE))),  # Metadata
    4: _OF_BROKERS,  # LeaderAndIsr
    5: _OF_BROKERS,  # StopReplica
    6: _OF_BROKERS,  # UpdateMetadata
    7: _OF_BROKERS,  # ControlledShutdown
    8: Needed(whole=(_group(READ),), each=(_topics(READ),)),  # OffsetCommit
    9: Needed(each=(_groups(DESCRIBE), _topics(DESCRIBE))),  # OffsetFetch
    10: Needed(each=(_groups(DESCRIBE), _ids(DESCRIBE))),  # FindCoordinator
    11: _OF_MEMBERS,  # JoinGroup
    12: _OF_MEMBERS,  # Heartbeat
    13: _OF_MEMBERS,  # LeaveGroup
    14: _OF_MEMBERS,  # SyncGroup
    15: Needed(each=(_groups(DESCRIBE),)),  # DescribeGroups
    16: Needed(each=(_cluster(DESCRIBE), _groups(DESCRIBE))),  # ListGroups
    17: _NOTHING,  # SaslHandshake
    18: _NOTHING,  # ApiVersions
    19: Needed(each=(_cluster(CREATE), _topics(CREATE), _topics(DESCRIBE_CONFIGS))),  # CreateTopics
    20: Needed(each=(_topics(DESCRIBE), _topics(DELETE))),  # DeleteTopics
    21: Needed(each=(_topics(DELETE),)),  # DeleteRecords
    22: Needed(each=(_ids(WRITE), _cluster(IDEMPOTENT_WRITE), _topics(WRITE))),  # InitProducerId
    23: Needed(each=(_cluster(CLUSTER_ACTION), _topics(DESCRIBE))),  # OffsetForLeaderEpoch
    24: Needed(each=(_ids(WRITE), _topics(WRITE))),  # AddPartitionsToTxn
    25: Needed(whole=(_transactional_id(WRITE), _group(READ))),  # AddOffsetsToTxn
    26: Needed(whole=(_transactional_id(WRITE),)),  # EndTxn
    27: Needed(each=(_cluster(ALTER), _cluster(CLUSTER_ACTION))),  # WriteTxnMarkers
    28: Needed(  # TxnOffsetCommit
        whole=(_transactional_id(WRITE), _group(READ)), each=(_topics(READ),)
    ),
    29: Needed(whole=(_cluster(DESCRIBE),)),  # DescribeAcls
    30: Needed(whole=(_cluster(ALTER),)),  # CreateAcls
    31: Needed(whole=(_cluster(ALTER),)),  # DeleteAcls
    32: Needed(  # DescribeConfigs
        each=(_topics(DESCRIBE_CONFIGS), _groups(DESCRIBE_CONFIGS), _cluster(DESCRIBE_CONFIGS))
    ),
    33: _CHANGING_CONFIGS,  # AlterConfigs
    34: Needed(whole=(_cluster(ALTER),)),  # AlterReplicaLogDirs
    35: Needed(whole=(_cluster(DESCRIBE),)),  # DescribeLogDirs
    36: _NOTHING,  # SaslAuthenticate
    37: Needed(each=(_topics(ALTER),)),  # CreatePartitions
    38: Needed(each=(Right(Operation.CREATE_TOKENS, ResourceType.USER),)),  # CreateDelegationToken
    39: _NOTHING,  # RenewDelegationToken
    40: _NOTHING,  # ExpireDelegationToken
    41: _NOTHING,  # DescribeDelegationToken
    42: Needed(each=(_groups(DELETE),)),  # DeleteGroups
    43: Needed(whole=(_cluster(ALTER),)),  # ElectLeaders
    44: _CHANGING_CONFIGS,  # IncrementalAlterConfigs
    45: Needed(whole=(_cluster(ALTER),)),  # AlterPartitionReassignments
    46: Needed(whole=(_cluster(DESCRIBE),)),  # ListPartitionReassignments
    47: Needed(whole=(_group(DELETE),), each=(_topics(READ),)),  # OffsetDelete
    48: Needed(whole=(_cluster(DESCRIBE_CONFIGS),)),  # DescribeClientQuotas
    49: Needed(whole=(_cluster(ALTER_CONFIGS),)),  # AlterClientQuotas
    50: Needed(whole=(_cluster(DESCRIBE),)),  # DescribeUserScramCredentials
    51: Needed(whole=(_cluster(ALTER),)),  # AlterUserScramCredentials
    56: _OF_BROKERS,  # AlterPartition
    60: Needed(each=(_cluster(DESCRIBE),)),  # DescribeCluster
    61: Needed(each=(_topics(READ),)),  # DescribeProducers
    65: Needed(each=(_ids(DESCRIBE), _topics(DESCRIBE))),  # DescribeTransactions
    66: Needed(each=(_ids(DESCRIBE),)),  # ListTransactions
    67: _OF_BROKERS,  # AllocateProducerIds
    68: Needed(whole=(_group(READ),), each=(_topics(DESCRIBE),)),  # ConsumerGroupHeartbeat
    69: Needed(each=(_groups(DESCRIBE), _topics(DESCRIBE))),  # ConsumerGroupDescribe
    75: Needed(each=(_topics(DESCRIBE),)),  # DescribeTopicPartitions
    20001: Needed(each=(_groups(DESCRIBE),)),  # DescribeGroupJournal
    20002: _OF_BROKERS,  # DescribeLogEnds
    20003: Needed(each=(_ids(DESCRIBE),)),  # DescribeTransactionJournal
}
"""By API key.  An API that is not here is not served to anybody while there is an authorizer."""
