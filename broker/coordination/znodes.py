"""Kafka's znodes: every path this broker uses, and the values in them.

`encode` and `decode` (methods of a value's class, or functions if it is one string or number) turn
values into a node's data and back.

Encoding writes what Apache Kafka 3.9 writes, in its key order (which no reader needs).  Decoding
takes what Kafka wrote since 0.8, and ignores keys it does not know.  A node's data may come from
any program that can reach ZooKeeper: whatever is wrong with it is one MalformedZnode.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self
from urllib.parse import quote, unquote

from odradek.protocol.primitives import uuid_bytes, uuid_text

from .broker_registration import BrokerRegistration as BrokerRegistration
from .broker_registration import RegisteredEndpoint as RegisteredEndpoint
from .broker_registration import VersionRange as VersionRange
from .json_fields import Fields, MalformedZnode, decode_object, encode_object, number

ACLS: Final = ("/kafka-acl", "/kafka-acl-extended")
"""Only Kafka's authorizer makes them, at its start; the ACLs are in nodes below them."""
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
BROKER_TOPICS: Final = "/brokers/topics"
CLUSTER_ID: Final = "/cluster/id"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"
CONFIG_GROUPS: Final = "/config/groups"
"""Not Kafka's, which keeps the configs of groups only in KRaft mode: made for the first of them."""
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
"""Persistent nodes without data that every broker makes sure of when it starts."""

EMPTY_FEATURE: Final = b'{"features":{},"version":2,"status":1}'
"""The only value this broker writes to /feature: with any feature in it, every Kafka broker in
ZooKeeper mode exits."""

SEQUENTIAL_NAME: Final = re.compile(r".*?(-?[0-9]{10})", re.DOTALL)


# --- paths


def broker_path(broker_id: int) -> str:
    """An ephemeral BrokerRegistration; its czxid is the broker epoch."""
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    """A TopicAssignment."""
    return f"{BROKER_TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """No data."""
    return f"{BROKER_TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    """No data."""
    return f"{BROKER_TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    """A PartitionStateNode; its version is the partition epoch."""
    return f"{BROKER_TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    """A config."""
    return f"/config/topics/{topic}"


def broker_config_path(broker_id: int | None) -> str:
    """A config; None means the default of all brokers."""
    return f"/config/brokers/{DEFAULT_ENTITY if broker_id is None else broker_id}"


def group_config_path(group_id: str) -> str:
    """A config."""
    return f"{CONFIG_GROUPS}/{_node_name(group_id)}"


def group_of_config(name: str) -> str:
    """The group whose config a node of this name below CONFIG_GROUPS is."""
    return unquote(name)


def _node_name(text: str) -> str:
    """Any text as the name of a node; as Kafka writes names of clients and users."""
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if text in (".", "..") else quoted


def delete_topic_path(topic: str) -> str:
    """No data: the node is the request."""
    return f"{DELETE_TOPICS}/{topic}"


def sequence_number(name: str) -> int:
    """The number at the end of a sequential node's name or path.  Raises: MalformedZnode."""
    match = SEQUENTIAL_NAME.fullmatch(name)
    if match is None:
        raise MalformedZnode(f"{name[:200]!r} is not the name of a sequential node")
    return int(match[1])


# --- cluster and controller


def encode_cluster_id(cluster_id: str) -> bytes:
    """Of /cluster/id; Kafka's cluster ids are the text of a uuid."""
    return encode_object({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Raises: MalformedZnode."""
    return decode_object(CLUSTER_ID, data).text("id")


def encode_controller_epoch(controller_epoch: int) -> bytes:
    """Of /controller_epoch."""
    return b"%d" % controller_epoch


def decode_controller_epoch(data: bytes) -> int:
    """Raises: MalformedZnode."""
    return number(data.decode("ascii", "replace"), CONTROLLER_EPOCH)


class ControllerNode(NamedTuple):
    """Of /controller: who is it, since when."""

    broker_id: int
    timestamp_ms: int
    kraft_controller_epoch: int = -1

    def encode(self) -> bytes:
        """Version 2."""
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
        """Versions 1 and 2.  Raises: MalformedZnode."""
        fields = decode_object(CONTROLLER, data)
        return cls(
            broker_id=fields.int32("brokerid"),
            timestamp_ms=fields.int64("timestamp", -1),
            kraft_controller_epoch=fields.int32("kraftControllerEpoch", -1),
        )


# --- topics


NO_REPLICAS: Final[Mapping[int, tuple[int, ...]]] = {}


class TopicAssignment(NamedTuple):
    """Of /brokers/topics/T: the replicas of each partition, the preferred leader first."""

    partitions: Mapping[int, tuple[int, ...]]
    topic_id: bytes | None
    """16 bytes; None in nodes older than Kafka 2.8."""
    adding_replicas: Mapping[int, tuple[int, ...]] = NO_REPLICAS
    removing_replicas: Mapping[int, tuple[int, ...]] = NO_REPLICAS

    def encode(self) -> bytes:
        """Version 3."""
        values: dict[str, object] = {"partitions": self.partitions}
        if self.topic_id is not None:
            values["topic_id"] = uuid_text(self.topic_id)
        values["adding_replicas"] = self.adding_replicas
        values["removing_replicas"] = self.removing_replicas
        values["version"] = 3
        return encode_object(values)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Versions 1 to 3.  Partitions come sorted.  Raises: MalformedZnode."""
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
    """Of /brokers/topics/T/partitions/P/state."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0
    """1 while the leader recovers from an unclean election."""

    def encode(self) -> bytes:
        """Version 1."""
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
        """Raises: MalformedZnode."""
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
    """Of /config/topics/T and its like."""
    return encode_object({"version": 1, "config": config})


def decode_config(data: bytes) -> dict[str, str]:
    """No data means no config.  Raises: MalformedZnode."""
    if not data:
        return {}
    config = decode_object("config", data).mapping_or_empty("config")
    return {name: config.text(name) for name in config}


def encode_config_change(entity_path: str) -> bytes:
    """Of /config/changes/config_change_N: `topics/T`, `brokers/N`, `brokers/<default>`."""
    return encode_object({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes) -> str:
    """Versions 1 and 2.  Raises: MalformedZnode."""
    fields = decode_object("config change", data)
    if "entity_path" in fields:
        return fields.text("entity_path")
    return f"{fields.text('entity_type')}/{fields.text('entity_name')}"


# --- notifications and counters


class ProducerIdBlock(NamedTuple):
    """Of /latest_producer_id_block: the block handed out last; both ends inclusive."""

    broker_id: int
    producer_id_first: int
    producer_id_last: int

    def encode(self) -> bytes:
        """Version 1."""
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
        """Raises: MalformedZnode."""
        fields = decode_object(PRODUCER_ID_BLOCK, data)
        return cls(
            broker_id=fields.int32("broker"),
            producer_id_first=fields.int64("block_start"),
            producer_id_last=fields.int64("block_end"),
        )


def encode_isr_change(partitions: Iterable[tuple[str, int]]) -> bytes:
    """Of /isr_change_notification/isr_change_N: (topic, partition) whose state was changed."""
    changed = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return encode_object({"version": 1, "partitions": changed})


def decode_isr_change(data: bytes) -> list[tuple[str, int]]:
    """Raises: MalformedZnode."""
    changed = decode_object("isr change", data).mappings("partitions")
    return [(fields.text("topic"), fields.int32("partition")) for fields in changed]


class LogDirEvent(NamedTuple):
    """Of /log_dir_event_notification/log_dir_event_N: a log directory of a broker failed."""

    broker_id: int
    event: int = 1

    def encode(self) -> bytes:
        """Version 1."""
        return encode_object({"version": 1, "broker": self.broker_id, "event": self.event})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises: MalformedZnode."""
        fields = decode_object("log dir event", data)
        return cls(broker_id=fields.int32("broker"), event=fields.int32("event"))


class Feature(NamedTuple):
    """Of /feature; to be written as EMPTY_FEATURE only."""

    enabled: bool
    version_levels_max: Mapping[str, int]

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Versions 1 and 2.  Raises: MalformedZnode."""
        fields = decode_object(FEATURE, data)
        features = fields.mapping_or_empty("features")
        return cls(
            enabled=fields.int32("status") == 1,
            version_levels_max={
                name: features.mapping(name).int32("max_version_level") for name in features
            },
        )
