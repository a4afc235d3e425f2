"""The settings of a broker that have an effect.

Settings whose effect is not built yet are in `later.py` or `security.py`, and are moved here when
it is. Those that can have no effect in Odradek are in `never.py`.
"""

from typing import Any, Final

from .admin import AdminSettings
from .authorization import AuthorizationSettings
from .connections import AnswerSettings, ListenerSettings
from .controller import ControllerSettings
from .declaration import BOOLEAN, INT, LONG, Setting, Value, declared_in
from .groups import GroupSettings
from .interbroker import InterBrokerSettings
from .log import LogSettings, TopicDefaultSettings
from .oauthbearer import OAuthBearerSettings
from .password_encoder import PasswordSettings
from .releases import CompatibilitySettings
from .replication import ReplicationSettings
from .sasl import SaslSettings
from .throttles import ThrottleSettings
from .tls import TlsSettings
from .transactions import TransactionSettings
from .upkeep import CleanerSettings, FlushSettings, RetentionSettings
from .zookeeper import ZooKeeperSettings

_MIB = 1 << 20


def _transaction_version(text: str) -> str | None:
    return None if text.strip() in ("0", "2") else "0 or 2"


class OdradekSettings:
    """Settings that Kafka does not have."""

    odradek_flush_bytes = Setting(
        "odradek.flush.bytes",
        LONG,
        64 * _MIB,
        "Flush a partition in the background after this many bytes; unflushed data is scanned "
        "after an unclean stop.",
        at_least=1,
    )
    odradek_flush_ms = Setting(
        "odradek.flush.ms",
        LONG,
        10_000,
        "Flush it this long after the first record that is not durable.",
        at_least=1,
    )
    odradek_fsync = Setting(
        "odradek.fsync",
        BOOLEAN,
        True,
        "Whether anything is synced to disk; false is for tests, whose files nobody needs after a "
        "power failure. What was acknowledged survives the end of the process even then.",
    )
    odradek_decompressed_batch_bytes_max = Setting(
        "odradek.decompressed.batch.bytes.max",
        INT,
        64 * _MIB,
        "The largest batch after decompression; larger ones are refused before they fill the "
        "memory.",
        at_least=1,
    )
    odradek_topic_partitions_max = Setting(
        "odradek.topic.partitions.max",
        INT,
        10_000,
        "The most partitions of one topic.",
        at_least=1,
    )
    odradek_group_metadata_bytes_max = Setting(
        "odradek.group.metadata.bytes.max",
        LONG,
        256 * _MIB,
        "Memory for the metadata that members of all groups send when they join; above this "
        "limit no member can join.",
        at_least=0,
    )
    odradek_fetch_session_partitions_max = Setting(
        "odradek.fetch.session.partitions.max",
        INT,
        200_000,
        "The most partitions in all fetch sessions together; above this limit new sessions are "
        "declined.",
        at_least=0,
    )
    odradek_transaction_version = Setting(
        "odradek.transaction.version",
        INT,
        0,
        "The version of transactions, as Kafka's feature transaction.version: 0, or 2 for KIP-890, "
        "with which each transaction has its own epoch. Version 2 needs the embedded store; all "
        "brokers of a process have the same. Producers that run while it is lowered must be "
        "restarted: they go on with version 2, and are refused.",
        check=_transaction_version,
    )


class BrokerSettings(
    ListenerSettings,
    TlsSettings,
    SaslSettings,
    OAuthBearerSettings,
    PasswordSettings,
    TopicDefaultSettings,
    LogSettings,
    RetentionSettings,
    CleanerSettings,
    FlushSettings,
    AnswerSettings,
    GroupSettings,
    TransactionSettings,
    InterBrokerSettings,
    ControllerSettings,
    ReplicationSettings,
    ThrottleSettings,
    ZooKeeperSettings,
    AuthorizationSettings,
    AdminSettings,
    CompatibilitySettings,
    OdradekSettings,
):
    """All settings of a broker that have an effect."""

    def __getitem__(self, name: str) -> Any:
        """The value of a built setting by Kafka's name; prefer the attributes, which are typed."""
        return self.__dict__[BUILT[name].attribute]


GROUPS = BrokerSettings.__bases__
BUILT: Final[dict[str, Setting[Value]]] = {
    name: setting for group in GROUPS for name, setting in declared_in(group).items()
}
"""All of them, by their names in Kafka."""
