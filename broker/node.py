"""The broker as its request handlers see it: its parts, and frequently used settings."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.protocol.errors import ErrorCode, Refused

from .administration.loggers import Loggers
from .core.fetch_session import PartitionFetch
from .core.partition import Partition
from .handlers import APIS, Api
from .local_broker import LocalBroker
from .net.eager_future import SettledAnswers
from .replication.nearest_replica import NearestReplica
from .tasks import TaskSupervisor

if TYPE_CHECKING:
    from .administration.acls import Acls
    from .administration.client_quotas import ClientQuotas
    from .administration.dynamic_configs import DynamicConfigs
    from .administration.scram_users import ScramUsers
    from .administration.topics import Topics
    from .cluster.controller import ClusterController
    from .groups.coordinator import GroupCoordinator
    from .member.control import ControlRequests
    from .member.producer_ids import ProducerIds
    from .replication.replicator import Replicator
    from .transactions.coordinator import TransactionCoordinator
    from .transactions.verifier import Verifier


class Node:
    """One broker, as its handlers see it; built in `assembly.py`."""

    def __init__(
        self,
        local: LocalBroker,
        *,
        topics: "Topics",
        dynamic_configs: "DynamicConfigs",
        client_quotas: "ClientQuotas",
        scram_users: "ScramUsers",
        groups: "GroupCoordinator",
        transactions: "TransactionCoordinator",
        verifier: "Verifier",
        producer_ids: "ProducerIds",
        control: "ControlRequests",
        acls: "Acls | None" = None,
        controller: "ClusterController",
        replicator: "Replicator",
        tasks: TaskSupervisor,
    ) -> None:
        config = local.config
        self.local = local
        self.config = config
        self.runtime = local.runtime
        self.clock = local.clock
        self.broker_id = local.broker_id
        self._apis_for_clients = _apis_for_clients(config.odradek_compatibility)
        self.broker_listeners = config.broker_listeners.accepting
        """The listeners on which other brokers connect."""
        self.metadata = local.metadata
        self.metrics = local.metrics
        self.replicas = local.replicas
        self.throttles = local.throttles
        self.quotas = local.quotas
        self.interceptor = local.runtime.interceptor
        self.fetch_sessions = local.fetch_sessions
        self.topics = topics
        self.dynamic_configs = dynamic_configs
        self.client_quotas = client_quotas
        self.scram_users = scram_users
        self.groups = groups
        self.transactions = transactions
        self.verifier = verifier
        self.producer_ids = producer_ids
        self.control = control
        self.acls = acls
        """The authorizer; None: every client may do everything."""
        self.controller = controller
        self.replicator = replicator
        self.tasks = tasks
        self.loggers = Loggers()
        self.settled_answers = SettledAnswers()
        self.nearest_replica = NearestReplica.configured(
            config.replica_selector_class, local.metadata, local.clock
        )
        self.decompressed_bytes_max = config.odradek_decompressed_batch_bytes_max
        self.fetch_bytes_max = config.fetch_max_bytes
        self.auto_create = config.auto_create_topics_enable
        self.delete_topic_enable = config.delete_topic_enable
        self.partitions_per_page_max = config.max_request_partition_size_limit

    def apis_on(self, listener_name: str) -> Mapping[int, Api]:
        """The APIs that clients of a listener can use, by key."""
        if not self.local.is_alone and listener_name in self.config.broker_only_listeners:
            return APIS
        return self._apis_for_clients

    def find(self, topic: str, partition: int) -> Partition:
        """The replica on this broker.  Raises: Refused, with a code that says why there is none."""
        found = self.replicas.partitions.get((topic, partition))
        if found is None:
            raise Refused(self.code_for_absent(topic, partition), None)
        return found

    def find_by_name(self, fetch: PartitionFetch) -> Partition:
        """The replica for a Fetch up to v12.  Raises: Refused."""
        topic, partition = fetch.key
        assert isinstance(topic, str)
        return self.find(topic, partition)

    def find_by_id(self, fetch: PartitionFetch) -> Partition:
        """The replica for a Fetch from v13 on.  Raises: Refused.

        Replicas are looked up before the metadata. A topic to be deleted is no longer in the
        metadata, but its deletion may have to wait for a reassignment, which ends only once the new
        followers have fetched.
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
        if found.log.topic_id is not None:  # the log belongs to an earlier topic of that name
            raise Refused(ErrorCode.INCONSISTENT_TOPIC_ID)
        return found

    def code_for_absent(self, topic: str, partition: int) -> ErrorCode:
        """The error code if this broker has no replica of a partition."""
        state = self.metadata.partition(topic, partition)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        failed = self.replicas.is_offline or self.replicas.statuses[topic, partition].is_failed
        if failed and self.broker_id in state.replicas:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER


def _apis_for_clients(release: str) -> Mapping[int, Api]:
    if not release:
        return APIS
    from .handlers.releases import apis_like  # only tests need it

    return apis_like(release)
