"""Which versions of which APIs the releases of Kafka served, for `odradek.compatibility`.

`python -m tests.kafka.releases` prints the table, as the jars of the releases tell it: each text
names the releases that changed an API, and the first and last version from then on. An API that is
not there was not known yet. It has the versions that a broker shows unless it is told to show
unstable ones, with ZooKeeper or with KRaft. Requests between brokers are not in it.
"""

from typing import Final

from ..settings.releases import RELEASES
from . import APIS, Api, Need

CHANGES: Final = {
    0: (  # Produce
        "0.11: 0-3, 1.0: 0-5, 2.0: 0-6, 2.1: 0-7, 2.4: 0-8, 2.8: 0-9, 3.7: 0-10, 3.8: 0-11, "
        "4.0: 3-12, 4.1: 3-13"
    ),
    1: (  # Fetch
        "0.11: 0-5, 1.0: 0-6, 1.1: 0-7, 2.0: 0-8, 2.1: 0-10, 2.3: 0-11, 2.7: 0-12, "
        "3.1: 0-13, 3.5: 0-15, 3.7: 0-16, 3.9: 0-17, 4.0: 4-17, 4.1: 4-18"
    ),
    2: (  # ListOffsets
        "0.11: 0-2, 2.0: 0-3, 2.1: 0-4, 2.2: 0-5, 2.8: 0-6, 3.0: 0-7, 3.5: 0-8, 3.9: 0-9, "
        "4.0: 1-10, 4.2: 1-11"
    ),
    3: (  # Metadata
        "0.11: 0-4, 1.0: 0-5, 2.0: 0-6, 2.1: 0-7, 2.3: 0-8, 2.4: 0-9, 2.8: 0-11, 3.1: 0-12, "
        "4.0: 0-13"
    ),
    8: (  # OffsetCommit
        "0.11: 0-3, 2.0: 0-4, 2.1: 0-6, 2.3: 0-7, 2.4: 0-8, 3.7: 0-9, 4.0: 2-9, 4.2: 2-10"
    ),
    9: (  # OffsetFetch
        "0.11: 0-3, 2.0: 0-4, 2.1: 0-5, 2.4: 0-6, 2.5: 0-7, 3.0: 0-8, 3.7: 0-9, 4.0: 1-9, 4.2: 1-10"
    ),
    10: "0.11: 0-1, 2.0: 0-2, 2.4: 0-3, 3.0: 0-4, 3.8: 0-5, 3.9: 0-6",  # FindCoordinator
    11: "0.11: 0-2, 2.0: 0-3, 2.2: 0-4, 2.3: 0-5, 2.4: 0-6, 2.5: 0-7, 3.2: 0-9",  # JoinGroup
    12: "0.11: 0-1, 2.0: 0-2, 2.3: 0-3, 2.4: 0-4",  # Heartbeat
    13: "0.11: 0-1, 2.0: 0-2, 2.4: 0-4, 3.2: 0-5",  # LeaveGroup
    14: "0.11: 0-1, 2.0: 0-2, 2.3: 0-3, 2.4: 0-4, 2.5: 0-5",  # SyncGroup
    15: "0.11: 0-1, 2.0: 0-2, 2.3: 0-3, 2.4: 0-5, 4.0: 0-6",  # DescribeGroups
    16: "0.11: 0-1, 2.0: 0-2, 2.4: 0-3, 2.6: 0-4, 3.8: 0-5",  # ListGroups
    17: "0.11: 0-0, 1.0: 0-1",  # SaslHandshake
    18: "0.11: 0-1, 2.0: 0-2, 2.4: 0-3, 3.9: 0-4",  # ApiVersions
    19: "0.11: 0-2, 2.0: 0-3, 2.4: 0-5, 2.7: 0-6, 2.8: 0-7, 4.0: 2-7",  # CreateTopics
    20: "0.11: 0-1, 2.0: 0-2, 2.1: 0-3, 2.4: 0-4, 2.7: 0-5, 2.8: 0-6, 4.0: 1-6",  # DeleteTopics
    21: "0.11: 0-0, 2.0: 0-1, 2.6: 0-2",  # DeleteRecords
    22: "0.11: 0-0, 2.0: 0-1, 2.4: 0-2, 2.5: 0-3, 2.7: 0-4, 3.8: 0-5",  # InitProducerId
    23: "0.11: 0-0, 2.0: 0-1, 2.1: 0-2, 2.3: 0-3, 2.8: 0-4, 4.0: 2-4",  # OffsetForLeaderEpoch
    24: "0.11: 0-0, 2.0: 0-1, 2.7: 0-2, 2.8: 0-3, 3.6: 0-4, 3.8: 0-5",  # AddPartitionsToTxn
    25: "0.11: 0-0, 2.0: 0-1, 2.7: 0-2, 2.8: 0-3, 3.8: 0-4",  # AddOffsetsToTxn
    26: "0.11: 0-0, 2.0: 0-1, 2.7: 0-2, 2.8: 0-3, 3.8: 0-4, 4.0: 0-5",  # EndTxn
    27: "0.11: 0-0, 2.8: 0-1, 4.0: 1-1, 4.2: 1-2",  # WriteTxnMarkers
    28: "0.11: 0-0, 2.0: 0-1, 2.1: 0-2, 2.5: 0-3, 3.8: 0-4, 4.0: 0-5",  # TxnOffsetCommit
    29: "0.11: 0-0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3",  # DescribeAcls
    30: "0.11: 0-0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3",  # CreateAcls
    31: "0.11: 0-0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3",  # DeleteAcls
    32: "0.11: 0-0, 1.1: 0-1, 2.0: 0-2, 2.6: 0-3, 2.8: 0-4, 4.0: 1-4",  # DescribeConfigs
    33: "0.11: 0-0, 2.0: 0-1, 2.8: 0-2",  # AlterConfigs
    34: "1.0: 0-0, 2.0: 0-1, 2.8: 0-2, 4.0: 1-2",  # AlterReplicaLogDirs
    35: "1.0: 0-0, 2.0: 0-1, 2.6: 0-2, 3.2: 0-3, 3.3: 0-4, 4.0: 1-4, 4.3: 1-5",  # DescribeLogDirs
    36: "1.0: 0-0, 2.2: 0-1, 2.5: 0-2",  # SaslAuthenticate
    37: "1.0: 0-0, 2.0: 0-1, 2.5: 0-2, 2.7: 0-3",  # CreatePartitions
    38: "1.1: 0-0, 2.0: 0-1, 2.4: 0-2, 3.3: 0-3, 4.0: 1-3",  # CreateDelegationToken
    39: "1.1: 0-0, 2.0: 0-1, 2.5: 0-2, 4.0: 1-2",  # RenewDelegationToken
    40: "1.1: 0-0, 2.0: 0-1, 2.5: 0-2, 4.0: 1-2",  # ExpireDelegationToken
    41: "1.1: 0-0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3",  # DescribeDelegationToken
    42: "1.1: 0-0, 2.0: 0-1, 2.4: 0-2",  # DeleteGroups
    43: "2.2: 0-0, 2.4: 0-2",  # ElectLeaders
    44: "2.3: 0-0, 2.4: 0-1",  # IncrementalAlterConfigs
    45: "2.4: 0-0, 4.1: 0-1",  # AlterPartitionReassignments
    46: "2.4: 0-0",  # ListPartitionReassignments
    47: "2.4: 0-0",  # OffsetDelete
    48: "2.6: 0-0, 2.8: 0-1",  # DescribeClientQuotas
    49: "2.6: 0-0, 2.8: 0-1",  # AlterClientQuotas
    50: "2.7: 0-0",  # DescribeUserScramCredentials
    51: "2.7: 0-0",  # AlterUserScramCredentials
    60: "2.8: 0-0, 3.7: 0-1, 4.0: 0-2",  # DescribeCluster
    61: "2.8: 0-0",  # DescribeProducers
    65: "3.0: 0-0",  # DescribeTransactions
    66: "3.0: 0-0, 3.8: 0-1, 4.1: 0-2",  # ListTransactions
    68: "3.7: 0-0, 4.0: 0-1",  # ConsumerGroupHeartbeat
    69: "3.8: 0-0, 4.0: 0-1",  # ConsumerGroupDescribe
    75: "3.8: 0-0",  # DescribeTopicPartitions
}


def apis_like(release: str) -> dict[int, Api]:
    """The APIs of this broker with the versions that this release had, too."""
    found = {}
    for key, api in APIS.items():
        if api.need is Need.BROKER or not api.is_advertised:
            found[key] = api
        elif (versions := versions_in(release, key)) is not None:
            first, last = versions
            if first <= api.last:
                found[key] = api.limited(first, last)
    return found


def versions_in(release: str, key: int) -> tuple[int, int] | None:
    """The first and last version of an API that a release served; None: it did not know it."""
    found = None
    known = RELEASES[: RELEASES.index(release) + 1]
    for change in CHANGES[key].split(", "):
        at, versions = change.split(": ")
        if at in known:
            first, last = versions.split("-")
            found = int(first), int(last)
    return found
