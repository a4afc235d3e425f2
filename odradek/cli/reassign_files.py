"""Reassignment plans as files, in the JSON of Kafka's kafka-reassign-partitions."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .cluster_view import TopicPartition
from .errors import CommandError


def plan_document(replicas: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """The document of a plan file."""
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": partition, "replicas": list(brokers)}
            for (topic, partition), brokers in replicas.items()
        ],
    }


def read_plan(path: Path) -> dict[TopicPartition, tuple[int, ...]]:
    """Read a plan: the new replicas of each partition.  Raises: CommandError."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise CommandError(f"{path} is not JSON: {error}") from error
    try:
        partitions = document["partitions"]
        if document["version"] != 1 or not isinstance(partitions, list):
            raise CommandError(f"{path}: this is not version 1 of a reassignment")
        read = [_entry(entry) for entry in partitions]
    except KeyError as error:
        raise CommandError(f"{path} is not a reassignment: there is no {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise CommandError(f"{path} is not a reassignment: {error}") from error
    plan = dict(read)
    if len(plan) < len(read):
        raise CommandError(f"{path} names a partition twice")
    if not plan:
        raise CommandError(f"{path} moves nothing")
    return plan


def _entry(entry: Any) -> tuple[TopicPartition, tuple[int, ...]]:
    topic, partition, replicas = entry["topic"], entry["partition"], entry["replicas"]
    numbers = [partition, *replicas]
    if not isinstance(topic, str) or any(type(n) is not int or n < 0 for n in numbers):
        raise ValueError(f"{topic!r}-{partition!r} has replicas {replicas!r}")
    if not replicas or len(set(replicas)) < len(replicas):
        raise ValueError(f"{topic}-{partition} has replicas {replicas!r}")
    if any(log_dir != "any" for log_dir in entry.get("log_dirs", ())):
        raise ValueError(f"{topic}-{partition}: only log_dirs of any are understood")
    return (topic, partition), tuple(replicas)
