"""Makes kafka-3.9.2-segments.tgz: what a real Apache Kafka 3.9.2 leaves after a clean stop.

`python -m tests.vectors.storage.record_segments FILE`: topics in several segments with every codec
and record headers, aborted and committed transactions over segments, and a compacted topic with
tombstones, whose producer's newest batch is kept empty.
"""

import shutil
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.apache import apache_kafka
from tests.support.waiting import until

SEGMENT_BYTES = "16384"
SETTINGS = {
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.retention.check.interval.ms": "1000",
    "log.retention.ms": "-1",  # the records are of 2023
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
TOPICS = {
    "codecs": {},
    "aborts": {},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
}
START_MS = 1_700_000_000_000


def produce(bootstrap_servers: str) -> None:
    """Fill the three topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    config = {"segment.bytes": SEGMENT_BYTES, "index.interval.bytes": "1000"}
    topics = [NewTopic(name, 1, 1, config={**config, **more}) for name, more in TOPICS.items()]
    for future in admin.create_topics(topics).values():
        future.result()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "compression.type": codec,
                "enable.idempotence": codec != "none",
                "linger.ms": 20,
                "batch.num.messages": 20,
            }
        )
        for n in range(400):
            value = f"{codec} {n} ".encode() * 6
            producer.produce(
                "codecs", value, key=str(n), timestamp=START_MS + n * 7, headers=[("n", b"1")]
            )
            if n % 20 == 19:
                producer.flush()
    transactional = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": "t", "linger.ms": 5}
    )
    transactional.init_transactions()
    for n in range(24):
        transactional.begin_transaction()
        for _ in range(5):
            transactional.produce("aborts", b"x" * 300, timestamp=START_MS + n)
        transactional.flush()
        if n % 3:
            transactional.abort_transaction()
        else:
            transactional.commit_transaction()
    for count in (30, 1500):  # of the first producer only its newest sequence is left
        produce_keys(bootstrap_servers, count)


def produce_keys(bootstrap_servers: str, count: int) -> None:
    """Records and tombstones for thirty keys, by a producer of its own."""
    settings = {"enable.idempotence": True, "linger.ms": 5}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})
    for n in range(count):
        value = None if n % 10 == 3 else b"y" * 40
        producer.produce("compacted", value, key=f"k{n % 30}", timestamp=START_MS + n)
        if n % 15 == 14:
            producer.flush()
    producer.flush()


def compacted(directory: Path) -> bool:
    """Whether the first segment has been cleaned."""
    return (directory / "compacted-0" / f"{0:020d}.log").stat().st_size < int(SEGMENT_BYTES) // 2


def main() -> None:
    """Record one directory."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with apache_kafka("3.9.2", directory=home / "kafka", settings=SETTINGS) as kafka:
            produce(kafka.bootstrap_servers)
            until(lambda: compacted(kafka.data_dir))
            time.sleep(2)  # the cleaner's checkpoint, and the deletion of what it replaced
            kafka.stop()
            shutil.copytree(kafka.data_dir, home / "segments")
        with tarfile.open(sys.argv[1], "w:gz") as archive:
            archive.add(home / "segments", "segments")


if __name__ == "__main__":
    main()
