"""The hash of the topic metadata that a consumer group's assignment depends on (KIP-1101).

It is in the group's ConsumerGroupMetadata record; when it changes, the group gets a new epoch and a
new assignment. The value equals Kafka's, so a group can move between Kafka's brokers and Odradek's
without a rebalance.

Source: Utils.computeTopicHash and computeGroupHash of Apache Kafka 4.3.1.
"""

from collections.abc import Mapping
from functools import lru_cache
from struct import pack

from .group import TopicImage
from .xxh3 import xxh3_64


def metadata_hash(topics: Mapping[str, TopicImage]) -> int:
    """The hash of a group that is subscribed to these existing topics, by name.

    A signed 64-bit number; 0 if there are no topics.
    """
    if not topics:
        return 0
    hashes = (topic_hash(name, image) for name, image in sorted(topics.items()))
    return _signed(xxh3_64(b"".join(pack("<q", one) for one in hashes)))


@lru_cache(maxsize=4096)
def topic_hash(
    name: str, image: TopicImage, racks: tuple[tuple[str, ...], ...] | None = None
) -> int:
    """The hash of one topic: its id, name, partition count and, if given, racks.

    `racks`: the racks of each partition's replicas, by partition.
    """
    data = bytearray(b"\0")  # the version of the layout
    most, least = image.topic_id[:8], image.topic_id[8:]
    data += most[::-1] + least[::-1] + _string(name) + pack("<i", image.partition_count)
    for partition in range(image.partition_count):
        data += pack("<i", partition)
        for rack in sorted(racks[partition]) if racks else ():
            data += pack("<i", len(rack)) + _string(rack)
    return _signed(xxh3_64(bytes(data)))


def _string(text: str) -> bytes:
    """A string as in Java: the UTF-16 code units, then their number."""
    units = text.encode("utf-16-le")
    return units + pack("<i", len(units) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
