"""Settings of replication: how followers fetch, and when they count as lagging."""

from typing import Any, Final, Protocol

from .declaration import INT, LONG, STRING, ConfigError, Setting

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
REPLICA_SELECTORS: Final = (RACK_AWARE_SELECTOR,)


class ByName(Protocol):
    """Settings by Kafka's names."""

    def __getitem__(self, name: str, /) -> Any:
        """The value of a setting."""
        ...


def check_replication_settings(values: ByName) -> None:
    """Check that a follower's fetch may not wait longer than its timeouts.  Raises: ConfigError.

    Source: KafkaConfig.validateValues of Kafka 3.9.
    """
    wait_ms = values["replica.fetch.wait.max.ms"]
    for name in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if wait_ms > values[name]:
            raise ConfigError(
                f"replica.fetch.wait.max.ms={wait_ms} must not be above {name}={values[name]}"
            )


class ReplicationSettings:
    """Followers and their leaders."""

    num_replica_fetchers = Setting(
        "num.replica.fetchers",
        INT,
        1,
        "Connections to each leader over which replicas are fetched.",
    )
    replica_fetch_backoff_ms = Setting(
        "replica.fetch.backoff.ms",
        INT,
        1_000,
        "How long to wait after a failed replica fetch, of one partition or of all.",
        at_least=0,
    )
    replica_fetch_max_bytes = Setting(
        "replica.fetch.max.bytes",
        INT,
        1_048_576,
        "The most bytes that a replica fetch requests for each partition; a larger batch is "
        "returned nevertheless.",
        at_least=0,
    )
    replica_fetch_min_bytes = Setting(
        "replica.fetch.min.bytes",
        INT,
        1,
        "The bytes that must be available before a replica fetch is answered, unless its time is "
        "up.",
    )
    replica_fetch_response_max_bytes = Setting(
        "replica.fetch.response.max.bytes",
        INT,
        10_485_760,
        "The most bytes that a replica fetch requests in total; a first batch that is larger is "
        "returned nevertheless.",
        at_least=0,
    )
    replica_fetch_wait_max_ms = Setting(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "How long a replica fetch waits for new records; at most replica.lag.time.max.ms.",
    )
    replica_lag_time_max_ms = Setting(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        "A follower that has not reached the leader's log end for this long is removed from the "
        "ISR.",
    )
    replica_selector_class = Setting(
        "replica.selector.class",
        STRING.or_none,
        None,
        "How leaders choose the replica that a consumer should read from; unset: the leader.",
        choices=REPLICA_SELECTORS,
    )
    replica_socket_timeout_ms = Setting(
        "replica.socket.timeout.ms",
        INT,
        30_000,
        "How long a replica fetcher waits for an answer; at least replica.fetch.wait.max.ms.",
    )
