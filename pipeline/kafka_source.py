"""Options of Spark's Kafka source and sink."""

from collections.abc import Sequence
from typing import Final

from .kafka import Kafka

AT_THE_END: Final = {"kafka.fetch.max.wait.ms": "20"}
"""How long a fetch at a partition's end waits for records, which Spark would not read anyway.

Kafka's consumer prefetches.  When Spark asks it for the partition's offsets, the broker answers
that only after the fetch: with Kafka's default each task takes half a second longer.
"""


def source_options(kafka: Kafka) -> dict[str, str]:
    """Options with which source and sink connect to the cluster (`kafka.` options only)."""
    options = {f"kafka.{name}": value for name, value in kafka.properties.items()}
    return {**options, "kafka.bootstrap.servers": kafka.bootstrap_servers}


def reading_options(
    kafka: Kafka, *, isolation_level: str, fail_on_data_loss: bool
) -> dict[str, str]:
    """Options to read records with their headers, except for topics and offsets."""
    return {
        **AT_THE_END,
        **source_options(kafka),
        "kafka.isolation.level": isolation_level,
        "includeHeaders": "true",
        "failOnDataLoss": str(fail_on_data_loss).lower(),
    }


def stream_options(
    topics: Sequence[str],
    *,
    pattern: str | None = None,
    starting_offsets: str,
    max_offsets_per_trigger: int | None,
) -> dict[str, str]:
    """Further options of a stream: its topics, and where to begin.

    `pattern` has to match whole names: Spark itself accepts a match anywhere in the name.
    """
    whole = ("subscribePattern", f"^(?:{pattern})$")
    subscription = whole if pattern else ("subscribe", ",".join(topics))
    options = dict([subscription, ("startingOffsets", starting_offsets)])
    if max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(max_offsets_per_trigger)
    return options
