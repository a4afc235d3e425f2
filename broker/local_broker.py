"""The parts of a broker that need no other broker: its identity, settings, replicas, metadata.

The parts that make it a member of a cluster (`assembly.py`) are built on these.
"""

from .config import Config
from .core.fetch_session import FetchSessions
from .member.metadata import MetadataCache
from .metrics.metrics import Metrics
from .partitions.replicas import Replicas
from .quotas import Quotas
from .replication.throttles import Throttles
from .runtime import Runtime
from .sasl.credentials import ScramUsers


class LocalBroker:
    """One broker, without its connections to others."""

    def __init__(
        self,
        config: Config,
        runtime: Runtime,
        *,
        broker_id: int,
        is_alone: bool,
        metadata: MetadataCache,
        metrics: Metrics,
        replicas: Replicas,
        scram_users: ScramUsers,
    ) -> None:
        self.config = config
        self.runtime = runtime
        self.clock = runtime.clock
        self.broker_id = broker_id
        self.broker_epoch = -1
        """The czxid of the broker's registration; -1 without one."""
        self.is_alone = is_alone
        """Whether there are no other brokers, now or later."""
        self.metadata = metadata
        self.metrics = metrics
        self.replicas = replicas
        self.scram_users = scram_users
        """The SCRAM users, as this broker knows them."""
        self.random_bytes = runtime.random_bytes
        self.throttles = Throttles(config, runtime.clock)
        self.quotas = Quotas(
            config,
            runtime,
            exempt_listeners=frozenset() if is_alone else config.broker_only_listeners,
        )
        self.fetch_sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots,
            partitions_max=config.odradek_fetch_session_partitions_max,
            randint=runtime.random.randint,
        )
