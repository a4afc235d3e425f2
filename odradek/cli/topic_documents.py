"""Topics as `odradek topics` shows them."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import click

from odradek.protocol.primitives import ZERO_UUID, uuid_text

from .clients import Client
from .tables import show_table

Topic = Mapping[str, Any]


def summary(topic: Topic) -> dict[str, object]:
    """A topic, for a list."""
    partitions = topic["partitions"]
    return {
        "topic": topic["name"],
        "partition_count": len(partitions),
        "replication_factor": max((len(p["replica_nodes"]) for p in partitions), default=0),
        "internal": topic["is_internal"],
        "topic_id": _topic_id(topic),
    }


def _topic_id(topic: Topic) -> str | None:
    """The id as Kafka's own tools show it; None if the broker is older than topic ids."""
    raw = UUID(str(topic["topic_id"])).bytes if topic.get("topic_id") else ZERO_UUID
    return None if raw == ZERO_UUID else uuid_text(raw)


def document(admin: Client, topic: Topic, offsets: bool) -> dict[str, Any]:
    """A topic with its partitions and settings; asks for settings, and for offsets if wanted."""
    partitions = [
        {
            "partition": p["partition_index"],
            "leader": p["leader_id"],
            "replicas": list(p["replica_nodes"]),
            "isr": list(p["isr_nodes"]),
        }
        for p in sorted(topic["partitions"], key=lambda p: int(p["partition_index"]))
    ]
    if offsets:
        _add_offsets(admin, topic["name"], partitions)
    return {
        **summary(topic),
        "partitions": partitions,
        "configs": _configs(admin, topic["name"]),
    }


def _add_offsets(admin: Client, name: str, partitions: Sequence[dict[str, Any]]) -> None:
    from kafka import OffsetSpec, TopicPartition

    keys = [TopicPartition(name, p["partition"]) for p in partitions]
    for column, spec in (("start", OffsetSpec.EARLIEST), ("end", OffsetSpec.LATEST)):
        found = admin.list_partition_offsets(dict.fromkeys(keys, spec))
        for key, partition in zip(keys, partitions, strict=True):
            partition[column] = found[key].offset


def _configs(admin: Client, name: str) -> dict[str, str]:
    """The settings made on the topic itself."""
    from kafka.admin import ConfigResource

    answer = admin.describe_configs([ConfigResource("TOPIC", name)])
    entries: Mapping[str, Any] = answer.get("topic", {}).get(name, {})
    return {
        key: entry["value"]
        for key, entry in sorted(entries.items())
        if entry["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    }


def show(document: Mapping[str, Any]) -> None:
    """Print it as a line and a table."""
    settings = " ".join(f"{key}={value}" for key, value in document["configs"].items())
    click.echo(f"{document['topic']}  id={document['topic_id']}  {settings}".rstrip())
    columns = list(document["partitions"][0]) if document["partitions"] else ["partition"]
    rows = [
        [",".join(map(str, cell)) if isinstance(cell, list) else cell for cell in p.values()]
        for p in document["partitions"]
    ]
    show_table([column.upper() for column in columns], rows)
