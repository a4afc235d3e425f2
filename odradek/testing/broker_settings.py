"""The settings that brokers under test have unless a test gives others."""

from collections.abc import Mapping
from typing import Final

from .texts import text_of

# A test has few members, and does not wait for more of them to join; it has few transactions, and
# waits for one that times out.
QUICK_COORDINATORS: Final = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "4",
}
# A follower that waits, in a fetch or after an error, does not fetch a topic created meanwhile; and
# retrying a controlled shutdown does not help partitions that no other broker can lead.
QUICK_CLUSTER: Final = {
    "controlled.shutdown.retry.backoff.ms": "200",
    "replica.fetch.backoff.ms": "100",
    "replica.fetch.wait.max.ms": "100",
}
OWN_SETTINGS: Final = {
    "listeners": "the port is always a free one",
    "log.dirs": "give data_dir",
    "odradek.admin.listener": "it is always on, at admin_url",
    "zookeeper.connect": "give zookeeper",
}


def settings_of(given: Mapping[str, object], *, brokers: int, keeps_files: bool) -> dict[str, str]:
    """The given settings as text, with those of a test for what is not given.

    Raises: ValueError for one that `Broker` sets itself.
    """
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ValueError(f"settings={given!r}: a dict of Kafka's names and their values")
    quick = {**QUICK_COORDINATORS, **(QUICK_CLUSTER if brokers > 1 else {})}
    settings = {**quick, **{name: text_of(value) for name, value in given.items()}}
    for name, hint in OWN_SETTINGS.items():
        if name in settings:
            raise ValueError(f"odradek.testing.Broker sets {name} itself: {hint}")
    if not keeps_files:
        settings.setdefault("odradek.fsync", "false")
    return settings
