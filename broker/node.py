"""What handlers see of the broker: its parts, and the settings that they ask for all the time."""

from typing import TYPE_CHECKING

from odradek.protocol.errors import ErrorCode, Refused

from .administration.client_quotas import ClientQuotas
from .administration.dynamic_configs import DynamicConfigs
from .administration.loggers import Loggers
from .administration.topics import Topics
from .config import Config
from .core.fetch_session import FetchSessions, PartitionFetch
from .core.partition import Partition
from .groups.coordinator import GroupCoordinator
from .member.metadata import MetadataCache
from .member.producer_ids import ProducerIds
from .net.eager_future import SettledAnswers
from .partitions.replicas import Replicas
from .replication.nearest_replica import NearestReplica
from .replication.throttles import Throttles
from .runtime import Runtime

if TYPE_CHECKING:
    from .cluster.controller import ClusterController
    from .member.control import ControlRequests
    from .replication.replicator import Replicator


class Node:
    """One broker, as its handlers know it.

    `topics` and all up to `controller` are set once the broker has its session with the store,
    before it accepts connections.
    """

    topics: Topics
    dynamic_configs: DynamicConfigs
    client_quotas: ClientQuotas
    groups: GroupCoordinator
    producer_ids: ProducerIds
    control: "ControlRequests"
    controller: "ClusterController"
    replicator: "Replicator"

    def __init__(
        self,
        config: Config,
        runtime: Runtime,
        *,
        broker_id: int,
        metadata: MetadataCache,
        replicas: Replicas,
    ) -> None:
        self.config = config
        self.runtime = runtime
        self.clock = runtime.clock
        self.broker_id = broker_id
        self.broker_epoch = -1
        """The czxid of its registration; -1 before."""
        self.broker_listeners = config.broker_listeners.names
        """By which other brokers come."""
        self.is_alone = False
        """Whether there are no others, now or later."""
        self.metadata = metadata
        self.replicas = replicas
        self.loggers = Loggers()
        self.settled_answers = SettledAnswers()
        self.throttles = Throttles(config, runtime.clock)
        self.fetch_sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots,
            partitions_max=config.odradek_fetch_session_partitions_max,
            randint=runtime.random.randint,
        )
        self.nearest_replica = NearestReplica.configured(
            config.replica_selector_class, metadata, runtime.clock
        )
        self.decompressed_bytes_max = config.odradek_decompressed_batch_bytes_max
        self.fetch_bytes_max = config.fetch_max_bytes
        self.auto_create = config.auto_create_topics_enable
        self.delete_topic_enable = config.delete_topic_enable
        self.partitions_per_page_max = config.max_request_partition_size_limit

    def find(self, topic: str, partition: int) -> Partition:
        """The replica on this broker.  Raises: Refused, with the reason why there is none."""
        found = self.replicas.partitions.get((topic, partition))
        if found is None:
            raise Refused(self.code_for_absent(topic, partition), None)
        return found

    def find_by_name(self, fetch: PartitionFetch) -> Partition:
        """What a Fetch asks for up to v12.  Raises: Refused."""
        topic, partition = fetch.key
        assert isinstance(topic, str)
        return self.find(topic, partition)

    def find_by_id(self, fetch: PartitionFetch) -> Partition:
        """What a Fetch asks for from v13 on.  Raises: Refused.

        The replicas come first: of a topic that is to be deleted nobody tells any more, but it may
        have to wait for a reassignment, which ends only once new followers have fetched.
        """
        topic_id, partition = fetch.key
        assert isinstance(topic_id, bytes)
        found = self.replicas.by_id.get((topic_id, partition))
        if found is not None:
            return found
        name = self.metadata.topic_name(topic_id)
        if name is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
        found = self.find(name, partition)
        if found.log.topic_id is not None:  # of an earlier topic of that name
            raise Refused(ErrorCode.INCONSISTENT_TOPIC_ID)
        return found

    def code_for_absent(self, topic: str, partition: int) -> ErrorCode:
        """Why this broker has no replica of a partition."""
        state = self.metadata.partition(topic, partition)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        replicas, key = self.replicas, (topic, partition)
        failed = replicas.is_offline or key in replicas.offline or key in replicas.unmade
        if failed and self.broker_id in state.replicas:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
