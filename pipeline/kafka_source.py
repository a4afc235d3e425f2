"""What Spark's kafka source and sink are told."""

from collections.abc import Sequence
from typing import Final

from .kafka import Kafka

AT_THE_END: Final = {"kafka.fetch.max.wait.ms": "20"}
"""How long a fetch at a partition's end waits for records.

Spark wants none that come later.  But Kafka's consumer has fetched ahead when Spark asks it for the
partition's offsets, and the broker answers that behind the fetch: by default each task takes half a
second longer.
"""


def source_options(kafka: Kafka) -> dict[str, str]:
    """What Spark's kafka source and sink need to reach the cluster (`kafka.` options only)."""
    options = {f"kafka.{name}": value for name, value in kafka.properties.items()}
    return {**options, "kafka.bootstrap.servers": kafka.bootstrap_servers}


def reading_options(
    kafka: Kafka, *, isolation_level: str, fail_on_data_loss: bool
) -> dict[str, str]:
    """What Spark's kafka source needs to read records whole, but for topics and offsets."""
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
    """What a stream needs beside these: its topics, and where to begin.

    A `pattern` is of whole names: Spark alone would take topics that hold a match anywhere.
    """
    whole = ("subscribePattern", f"^(?:{pattern})$")
    subscription = whole if pattern else ("subscribe", ",".join(topics))
    options = dict([subscription, ("startingOffsets", starting_offsets)])
    if max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(max_offsets_per_trigger)
    return options
