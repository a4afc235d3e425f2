"""The metadata hash of a group, number for number Kafka's."""

import base64
import random
from struct import unpack

import pytest

from odradek.broker.core.groups.group import TopicImage
from odradek.broker.core.groups.metadata_hash import metadata_hash, topic_hash
from odradek.broker.core.groups.xxh3 import xxh3_64
from tests.kafka.java import run_program

ORDERS = TopicImage(bytes(range(16)), 3)


def test_values_of_kafka() -> None:
    assert metadata_hash({}) == 0
    assert topic_hash("orders", ORDERS) == 7505420903485085114
    assert metadata_hash({"orders": ORDERS}) == 3091374266733325672


@pytest.mark.parametrize(
    ("size_bytes", "hashed"),
    [
        (33, -4577992220865291042),
        (97, -7875766390660042324),
        (128, 5504977043647058248),
        (129, -5165027648014731547),
        (143, -2612222751482778754),
        (144, 4625428940789717903),
        (160, 8882745838884045215),
        (200, -3377674752866556486),
        (239, 7754504724644452772),
        (240, -2963439577724396716),
        (241, -4173490213356353343),
        (1024, -995590339152623638),
        (1025, 4897780765970506805),
        (2100, 1717896138939013514),
    ],
)
def test_hashes_that_kafka_has_computed(size_bytes: int, hashed: int) -> None:
    """On both sides of where the algorithm changes, and of where a block ends."""
    assert signed(xxh3_64(bytes(i * 7 % 251 for i in range(size_bytes)))) == hashed


def test_everything_counts_but_the_order() -> None:
    other = TopicImage(bytes(16), 3)
    values = [
        metadata_hash({"orders": ORDERS}),
        metadata_hash({"orders": ORDERS._replace(partition_count=4)}),
        metadata_hash({"orders": other}),
        metadata_hash({"orderS": ORDERS}),
        metadata_hash({"orders": ORDERS, "other": other}),
    ]
    assert len(set(values)) == len(values)
    assert metadata_hash({"other": other, "orders": ORDERS}) == values[-1]
    assert topic_hash("orders", ORDERS, (("a",), ("b",), ("a",))) != topic_hash("orders", ORDERS)


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


@pytest.mark.java
@pytest.mark.slow
def test_the_hashes_are_kafkas() -> None:
    rng = random.Random(1101)
    lines: list[str] = []
    ours: list[int] = []
    sizes = [*range(4, 300), 511, 512, 513, 1023, 1024, 1025, 1088, 1089, 2048, 2049, 5000]
    for size in sizes:
        data = rng.randbytes(size)
        lines.append(f"hash\t{base64.b64encode(data).decode()}")
        ours.append(signed(xxh3_64(data)))
    topics: dict[str, TopicImage] = {"orders": ORDERS}
    for number in range(40):
        name = "t" * rng.randint(1, 20) + str(number)
        topics[name] = TopicImage(rng.randbytes(16), rng.choice([1, 2, 7, 50, 300]))
    for name, image in topics.items():
        racks = tuple(
            tuple(rng.choices(["eu-1", "eu-2", "a"], k=rng.randint(0, 3)))
            for _ in range(image.partition_count)
        )
        halves = "\t".join(map(str, unpack(">qq", image.topic_id)))
        for some in (racks, ((),) * image.partition_count):
            lines.append(f"topic-hash\t{name}\t{halves}\t{';'.join(map(','.join, some))}")
            ours.append(topic_hash(name, image, some))
    for count in range(1, len(topics) + 1):
        some_topics = dict(rng.sample(sorted(topics.items()), count))
        pairs = [f"{name}={topic_hash(name, image)}" for name, image in some_topics.items()]
        lines.append(f"group-hash\t{','.join(pairs)}")
        ours.append(metadata_hash(some_topics))
    answers = run_program("4.3.1", "Assignors", stdin="\n".join(lines).encode()).stdout.split()
    for line, mine, answer in zip(lines, ours, answers, strict=True):
        assert mine == int(answer), line
