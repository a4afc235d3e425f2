"""Kafka's settings whose effect is not built yet.

They are parsed and checked as in Kafka, and shown by DescribeConfigs.  If one differs from its
default, the broker logs a warning or, where that would be dangerous, does not start.  When the
effect is built, the declaration moves to `built.py`.
"""

from typing import Final

from .declaration import (
    BOOLEAN,
    CLASS,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    Setting,
    Value,
)

# Two lines for each setting, so that they can be read as a table.
# fmt: off

LOG: Final[tuple[Setting[Value], ...]] = (
    Setting("log.preallocate", BOOLEAN, False,
        "Reserve the full size of a segment when it is made."),
    Setting("log.message.format.version", STRING, "3.0-IV1",
        "The format of stored batches; version 2 is the only one, here as in Kafka 3."),
    Setting("log.dir.failure.timeout.ms", LONG, 30_000,
        "Stop if a failed directory could not be reported for this long.", at_least=1),
)

REPLICATION: Final[tuple[Setting[Value], ...]] = (
    Setting("replica.socket.receive.buffer.bytes", INT, 65_536,
        "SO_RCVBUF of replica fetchers."),
)

COORDINATORS: Final[tuple[Setting[Value], ...]] = (
    Setting("group.coordinator.append.linger.ms", INT, 10,
        "How long the group coordinator gathers writes.", at_least=0),
    Setting("offsets.commit.required.acks", SHORT, -1,
        "Acks for the write of a committed offset; -1: all."),
    Setting("offsets.topic.compression.codec", INT, 0,
        "Codec of the topic of committed offsets, by number; 0: none."),
)

LIMITS: Final[tuple[Setting[Value], ...]] = (
    Setting("create.topic.policy.class.name", CLASS.or_none, None,
        "A Java class with a rule that new topics must pass.",
        refused_because="topics would be created without that rule"),
    Setting("alter.config.policy.class.name", CLASS.or_none, None,
        "A Java class with a rule that changes of configs must pass.",
        refused_because="configs would be changed without that rule"),
    Setting("alter.config.policy.kraft.compatibility.enable", BOOLEAN, False,
        "Show alter.config.policy.class.name all configs, not only the changed ones."),
    Setting("telemetry.max.bytes", INT, 1_048_576,
        "The largest push of metrics from a client.", at_least=1),
)

ZOOKEEPER: Final[tuple[Setting[Value], ...]] = (
    Setting("zookeeper.ssl.cipher.suites", LIST.or_none, None,
        "Cipher suites towards ZooKeeper.",
        refused_because="other ciphers could be used towards ZooKeeper"),
    Setting("zookeeper.ssl.crl.enable", BOOLEAN, False,
        "Ask revocation lists about ZooKeeper's certificate.",
        refused_because="a revoked certificate would be trusted"),
    Setting("zookeeper.ssl.enabled.protocols", LIST.or_none, None,
        "TLS versions towards ZooKeeper.",
        refused_because="other TLS versions could be used towards ZooKeeper"),
    Setting("zookeeper.ssl.ocsp.enable", BOOLEAN, False,
        "Ask OCSP about ZooKeeper's certificate.",
        refused_because="a revoked certificate would be trusted"),
    Setting("zookeeper.ssl.protocol", STRING, "TLSv1.2",
        "The TLS version to begin with towards ZooKeeper.",
        refused_because="another TLS version could be used"),
    Setting("zookeeper.ssl.truststore.password", PASSWORD.or_none, None,
        "Password of the file with authorities; one in PEM has none."),
)

LATER: Final = LOG + REPLICATION + COORDINATORS + LIMITS + ZOOKEEPER
