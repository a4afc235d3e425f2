"""Kafka's znodes: every path that this broker uses, and the values stored there.

`encode` and `decode` (methods of a value's class, or functions if it is one string or number)
convert between values and a znode's data.

Encoding writes what Apache Kafka 3.9 writes, in its key order (which no reader needs).  Decoding
accepts what Kafka has written since 0.8, and ignores unknown keys.  Any program that can reach
ZooKeeper may have written the data: every defect raises MalformedZnode.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self
from urllib.parse import quote, unquote

from odradek.protocol.primitives import uuid_bytes, uuid_text

from .broker_registration import BrokerRegistration as BrokerRegistration
from .broker_registration import RegisteredEndpoint as RegisteredEndpoint
from .broker_registration import VersionRange as VersionRange
from .json_fields import Fields, MalformedZnode, decode_object, encode_object, number

ACLS: Final = ("/kafka-acl", "/kafka-acl-extended")
"""Created only by Kafka's authorizer, when it starts; the ACLs are in the znodes below."""
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
BROKER_TOPICS: Final = "/brokers/topics"
CLUSTER_ID: Final = "/cluster/id"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"
CONFIG_GROUPS: Final = "/config/groups"
"""Odradek's own, created with the first group config: Kafka has group configs only in KRaft."""
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
DEFAULT_ENTITY: Final = "<default>"
DELETE_TOPICS: Final = "/admin/delete_topics"
FEATURE: Final = "/feature"
ISR_CHANGES: Final = "/isr_change_notification"
ISR_CHANGE_PREFIX: Final = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = f"{LOG_DIR_EVENTS}/log_dir_event_"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
SCRAM_SECRET: Final = "/odradek/scram_secret"
"""Odradek's own, created by the first broker with a listener on which clients log in by SCRAM."""

STARTUP_PATHS: Final = (
    "/consumers",
    BROKER_IDS,
    BROKER_TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""Persistent znodes without data, which every broker creates at startup if they are missing."""

EMPTY_FEATURE: Final = b'{"features":{},"version":2,"status":1}'
"""The only value this broker writes to /feature: if it listed any feature, every Kafka broker in
ZooKeeper mode would exit."""

SEQUENTIAL_NAME: Final = re.compile(r".*?(-?[0-9]{10})", re.DOTALL)


# --- paths


def broker_path(broker_id: int) -> str:
    """The path of an ephemeral BrokerRegistration; its czxid is the broker epoch."""
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    """The path of a TopicAssignment."""
    return f"{BROKER_TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """The path of a topic's partitions; no data."""
    return f"{BROKER_TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    """The path of a partition; no data."""
    return f"{BROKER_TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    """The path of a PartitionStateNode; its version is the partition epoch."""
    return f"{BROKER_TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    """The path of a topic's config."""
    return f"/config/topics/{topic}"


def broker_config_path(broker_id: int | None) -> str:
    """The path of a broker's config; None: the default for all brokers."""
    return f"/config/brokers/{DEFAULT_ENTITY if broker_id is None else broker_id}"


def group_config_path(group_id: str) -> str:
    """The path of a group's config."""
    return f"{CONFIG_GROUPS}/{_node_name(group_id)}"


def group_of_config(name: str) -> str:
    """The group whose config is in the znode of this name below CONFIG_GROUPS."""
    return unquote(name)


def _node_name(text: str) -> str:
    """Quote any text as a znode name, in the way Kafka quotes client and user names."""
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if text in (".", "..") else quoted


def delete_topic_path(topic: str) -> str:
    """The path of a request to delete a topic; no data, because the znode itself is the request."""
    return f"{DELETE_TOPICS}/{topic}"


def sequence_number(name: str) -> int:
    """The number at the end of a sequential znode's name or path.  Raises: MalformedZnode."""
    match = SEQUENTIAL_NAME.fullmatch(name)
    if match is None:
        raise MalformedZnode(f"{name[:200]!r} is not the name of a sequential node")
    return int(match[1])


# --- cluster and controller


def encode_cluster_id(cluster_id: str) -> bytes:
    """Encode /cluster/id; Kafka's cluster ids are uuids in text form."""
    return encode_object({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Decode /cluster/id.  Raises: MalformedZnode."""
    return decode_object(CLUSTER_ID, data).text("id")


def encode_scram_secret(secret: bytes) -> bytes:
    """Encode /odradek/scram_secret."""
    return encode_object({"version": 1, "secret": b64encode(secret).decode()})


def decode_scram_secret(data: bytes) -> bytes:
    """Decode /odradek/scram_secret; the error shows no part of it.  Raises: MalformedZnode."""
    text = decode_object(SCRAM_SECRET, data).text("secret")
    try:
        secret = b64decode(text, validate=True)
    except ValueError:
        secret = b""
    if len(secret) < 16:
        raise MalformedZnode(f"{SCRAM_SECRET}: secret is not 16 or more bytes in base64")
    return secret


def encode_controller_epoch(controller_epoch: int) -> bytes:
    """Encode /controller_epoch."""
    return b"%d" % controller_epoch


def decode_controller_epoch(data: bytes) -> int:
    """Decode /controller_epoch.  Raises: MalformedZnode."""
    return number(data.decode("ascii", "replace"), CONTROLLER_EPOCH)


class ControllerNode(NamedTuple):
    """The value of /controller: the controller's id, and when it was elected."""

    broker_id: int
    timestamp_ms: int
    kraft_controller_epoch: int = -1

    def encode(self) -> bytes:
        """Encode as version 2."""
        return encode_object(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": self.kraft_controller_epoch,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode versions 1 and 2.  Raises: MalformedZnode."""
        fields = decode_object(CONTROLLER, data)
        return cls(
            broker_id=fields.int32("brokerid"),
            timestamp_ms=fields.int64("timestamp", -1),
            kraft_controller_epoch=fields.int32("kraftControllerEpoch", -1),
        )


# --- topics


NO_REPLICAS: Final[Mapping[int, tuple[int, ...]]] = {}


class TopicAssignment(NamedTuple):
    """The value of /brokers/topics/T: each partition's replicas, the preferred leader first."""

    partitions: Mapping[int, tuple[int, ...]]
    topic_id: bytes | None
    """16 bytes; None in znodes written before Kafka 2.8."""
    adding_replicas: Mapping[int, tuple[int, ...]] = NO_REPLICAS
    removing_replicas: Mapping[int, tuple[int, ...]] = NO_REPLICAS

    def encode(self) -> bytes:
        """Encode as version 3."""
        values: dict[str, object] = {"partitions": self.partitions}
        if self.topic_id is not None:
            values["topic_id"] = uuid_text(self.topic_id)
        values["adding_replicas"] = self.adding_replicas
        values["removing_replicas"] = self.removing_replicas
        values["version"] = 3
        return encode_object(values)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode versions 1 to 3; partitions are sorted.  Raises: MalformedZnode."""
        fields = decode_object("topic assignment", data)
        return cls(
            partitions=_decode_replicas(fields.mapping("partitions")),
            topic_id=_decode_topic_id(fields.text("topic_id")) if "topic_id" in fields else None,
            adding_replicas=_decode_replicas(fields.mapping_or_empty("adding_replicas")),
            removing_replicas=_decode_replicas(fields.mapping_or_empty("removing_replicas")),
        )


def _decode_replicas(fields: Fields) -> dict[int, tuple[int, ...]]:
    replicas = {number(key, "partition"): fields.int32s(key) for key in fields}
    return dict(sorted(replicas.items()))


def _decode_topic_id(text: str) -> bytes:
    try:
        topic_id = uuid_bytes(text)
        if uuid_text(topic_id) == text:  # base64 decoders skip what they do not know
            return topic_id
    except ValueError:
        pass
    raise MalformedZnode(f"topic_id is {text[:100]!r}, not a uuid")


class PartitionStateNode(NamedTuple):
    """The value of /brokers/topics/T/partitions/P/state."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0
    """1 while the leader recovers from an unclean election."""

    def encode(self) -> bytes:
        """Encode as version 1."""
        values: dict[str, object] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": self.isr,
        }
        if self.leader_recovery_state:
            values["leader_recovery_state"] = self.leader_recovery_state
        return encode_object(values)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the data.  Raises: MalformedZnode."""
        fields = decode_object("partition state", data)
        return cls(
            leader=fields.int32("leader"),
            leader_epoch=fields.int32("leader_epoch"),
            isr=fields.int32s("isr"),
            controller_epoch=fields.int32("controller_epoch"),
            leader_recovery_state=fields.int32("leader_recovery_state", 0),
        )


# --- configs


def encode_config(config: Mapping[str, str]) -> bytes:
    """Encode a config, such as /config/topics/T."""
    return encode_object({"version": 1, "config": config})


def decode_config(data: bytes) -> dict[str, str]:
    """Decode a config; no data means an empty one.  Raises: MalformedZnode."""
    if not data:
        return {}
    config = decode_object("config", data).mapping_or_empty("config")
    return {name: config.text(name) for name in config}


def encode_config_change(entity_path: str) -> bytes:
    """Encode /config/changes/config_change_N: `topics/T`, `brokers/N`, `brokers/<default>`."""
    return encode_object({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes) -> str:
    """Decode versions 1 and 2 to the entity path.  Raises: MalformedZnode."""
    fields = decode_object("config change", data)
    if "entity_path" in fields:
        return fields.text("entity_path")
    return f"{fields.text('entity_type')}/{fields.text('entity_name')}"


# --- notifications and counters


class ProducerIdBlock(NamedTuple):
    """The value of /latest_producer_id_block: the last allocated block, both ends inclusive."""

    broker_id: int
    producer_id_first: int
    producer_id_last: int

    def encode(self) -> bytes:
        """Encode as version 1."""
        return encode_object(
            {
                "version": 1,
                "broker": self.broker_id,
                "block_start": str(self.producer_id_first),
                "block_end": str(self.producer_id_last),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the data.  Raises: MalformedZnode."""
        fields = decode_object(PRODUCER_ID_BLOCK, data)
        return cls(
            broker_id=fields.int32("broker"),
            producer_id_first=fields.int64("block_start"),
            producer_id_last=fields.int64("block_end"),
        )


def encode_isr_change(partitions: Iterable[tuple[str, int]]) -> bytes:
    """Encode /isr_change_notification/isr_change_N: the partitions whose state changed."""
    changed = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return encode_object({"version": 1, "partitions": changed})


def decode_isr_change(data: bytes) -> list[tuple[str, int]]:
    """Decode /isr_change_notification/isr_change_N.  Raises: MalformedZnode."""
    changed = decode_object("isr change", data).mappings("partitions")
    return [(fields.text("topic"), fields.int32("partition")) for fields in changed]


class LogDirEvent(NamedTuple):
    """The value of /log_dir_event_notification/log_dir_event_N: a broker's log directory failed."""

    broker_id: int
    event: int = 1

    def encode(self) -> bytes:
        """Encode as version 1."""
        return encode_object({"version": 1, "broker": self.broker_id, "event": self.event})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the data.  Raises: MalformedZnode."""
        fields = decode_object("log dir event", data)
        return cls(broker_id=fields.int32("broker"), event=fields.int32("event"))


class Feature(NamedTuple):
    """The value of /feature; this broker writes only EMPTY_FEATURE."""

    enabled: bool
    version_levels_max: Mapping[str, int]

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode versions 1 and 2.  Raises: MalformedZnode."""
        fields = decode_object(FEATURE, data)
        features = fields.mapping_or_empty("features")
        return cls(
            enabled=fields.int32("status") == 1,
            version_levels_max={
                name: features.mapping(name).int32("max_version_level") for name in features
            },
        )
