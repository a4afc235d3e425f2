"""Settings of quotas and of throttled replication: rates, and windows over which they are measured.

The topics' settings determine which replicas are throttled (`topic.py`). The quotas of clients and
addresses are not settings, but are in the store.
"""

from typing import Final

from .declaration import INT, LONG, Setting


class ThrottleSettings:
    """Rates of one broker, and the windows over which it measures them."""

    leader_replication_throttled_rate = Setting(
        "leader.replication.throttled.rate",
        LONG.or_none,
        None,
        "The most bytes in a second that this broker sends to followers that are not in sync, "
        "for throttled partitions.",
        at_least=0,
    )
    follower_replication_throttled_rate = Setting(
        "follower.replication.throttled.rate",
        LONG.or_none,
        None,
        "The most bytes in a second that this broker fetches for throttled partitions in which "
        "it is not in sync.",
        at_least=0,
    )
    replica_alter_log_dirs_io_max_bytes_per_second = Setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG.or_none,
        None,
        "The most bytes in a second that all moves between log directories of this broker copy.",
        at_least=0,
    )
    quota_window_num = Setting(
        "quota.window.num",
        INT,
        11,
        "Samples over which the rates of clients and of new connections are measured. What a "
        "client has not used in them, it may use at once.",
        at_least=1,
    )
    quota_window_size_seconds = Setting(
        "quota.window.size.seconds",
        INT,
        1,
        "The length of one sample of quota.window.num. It is also the longest delay because of "
        "request_percentage and of the rates of new connections.",
        at_least=1,
    )
    controller_quota_window_num = Setting(
        "controller.quota.window.num",
        INT,
        11,
        "Samples for which a client may save up its controller_mutation_rate.",
        at_least=1,
    )
    controller_quota_window_size_seconds = Setting(
        "controller.quota.window.size.seconds",
        INT,
        1,
        "The length of one sample of controller.quota.window.num.",
        at_least=1,
    )
    replication_quota_window_num = Setting(
        "replication.quota.window.num",
        INT,
        11,
        "Samples over which throttled replication is measured.",
        at_least=1,
    )
    replication_quota_window_size_seconds = Setting(
        "replication.quota.window.size.seconds",
        INT,
        1,
        "The length of one sample of replication.quota.window.num.",
        at_least=1,
    )
    alter_log_dirs_replication_quota_window_num = Setting(
        "alter.log.dirs.replication.quota.window.num",
        INT,
        11,
        "Samples over which moves between log directories are measured.",
        at_least=1,
    )
    alter_log_dirs_replication_quota_window_size_seconds = Setting(
        "alter.log.dirs.replication.quota.window.size.seconds",
        INT,
        1,
        "The length of one sample of alter.log.dirs.replication.quota.window.num.",
        at_least=1,
    )


RATES: Final = frozenset(
    {
        ThrottleSettings.leader_replication_throttled_rate.name,
        ThrottleSettings.follower_replication_throttled_rate.name,
        ThrottleSettings.replica_alter_log_dirs_io_max_bytes_per_second.name,
    }
)
"""Can be set at run time; DescribeConfigs shows them only if they are set, and as read-only."""
