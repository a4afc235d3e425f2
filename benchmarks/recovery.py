"""`python -m benchmarks.recovery`: how fast a log is scanned after an unclean stop.

Batches of 16 KiB and of 1 KiB, on a warm page cache, by one process. With `--kafka` Apache Kafka
3.9.2 writes the directory, is killed, and recovers it too, with one thread; its own log says how
long that took.
"""

import argparse
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.records import Record, build_batch, set_offset_and_epoch
from odradek.storage.files import RealFileSystem
from odradek.storage.log.segment_scan import ScanStart, scan_segment
from tests.kafka.apache import Kafka39

SIZES: Final = (16 << 10, 1 << 10)
OVERHEAD_BYTES: Final = 80  # of a batch of one record
TIMEOUT_S: Final = 120.0
LOUD: Final = "log4j.logger.kafka.log.LogManager=INFO\n"
LOADED: Final = re.compile(r"Completed load of Log\(dir=\S+/b-0,.*? in (\d+)ms")


class LoudKafka(Kafka39):
    """Says how long it took to load a log."""

    def _prepare(self) -> None:
        super()._prepare()
        with (self.directory / "log4j.properties").open("a") as config:
            config.write(LOUD)


def main() -> int:
    """Measure and print a line for each size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500, help="of each log")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kafka", action="store_true", help="have Apache Kafka recover it too")
    parser.add_argument("--directory", type=Path, help="where the files go meanwhile")
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="recovery-", dir=given.directory))
    try:
        for size_bytes in SIZES:
            if given.kafka:
                path, kafka_s = by_kafka(home / str(size_bytes), size_bytes, given.megabytes)
            else:
                path, kafka_s = write(home / str(size_bytes), size_bytes, given.megabytes), None
            show(size_bytes, path, scan(path, given.rounds), kafka_s)
    finally:
        shutil.rmtree(home)
    return 0


def show(size_bytes: int, path: Path, seconds: list[float], kafka_s: float | None) -> None:
    """Print the median, and the ratio to Kafka."""
    total = sum(log.stat().st_size for log in path.glob("*.log"))
    ours = total / statistics.median(seconds) / 1e6
    line = f"batches of {size_bytes:5d} bytes, {total / 1e6:.0f} MB: Odradek {ours:.0f} MB/s"
    if kafka_s is not None:
        kafkas = total / kafka_s / 1e6
        line += f", Apache Kafka 3.9.2 {kafkas:.0f} MB/s, ratio {ours / kafkas:.2f}"
    print(line, flush=True)


def scan(path: Path, rounds: int) -> list[float]:
    """Seconds of each scan of all segments; the first one warms the cache and is not counted."""
    files = RealFileSystem()
    seconds = []
    for _ in range(rounds + 1):
        begun_s = time.perf_counter()
        for log in sorted(path.glob("*.log")):
            file = files.open_log(str(log), log.stat().st_size)
            found = scan_segment(file, int(log.stem), ScanStart(), index_interval_bytes=4096)
            assert found.problem is None, found.problem
            file.close()
        seconds.append(time.perf_counter() - begun_s)
    return seconds[1:]


def write(path: Path, size_bytes: int, megabytes: int) -> Path:
    """One segment of such batches."""
    path.mkdir()
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"x" * (size_bytes - OVERHEAD_BYTES))])
    with (path / f"{0:020d}.log").open("wb") as file:
        for offset in range((megabytes << 20) // len(batch)):
            set_offset_and_epoch(batch, offset, 0)
            file.write(batch)
    return path


def by_kafka(home: Path, size_bytes: int, megabytes: int) -> tuple[Path, float]:
    """The directory that Kafka has written, and the seconds that it took to recover it."""
    settings = {"num.recovery.threads.per.data.dir": "1", "log.segment.bytes": str(1 << 30)}
    kafka = LoudKafka(home, settings, heap_mb=1024, jvm_options=())
    try:
        kafka.start()
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic("b", 1, 1)])["b"].result()
        produce(kafka.bootstrap_servers, size_bytes, megabytes)
        kafka.kill()
        kafka.start()
        deadline_s = time.monotonic() + TIMEOUT_S
        while not (found := LOADED.findall(kafka.output)):
            assert time.monotonic() < deadline_s, "Kafka says nothing of the log"
            time.sleep(0.1)
        copy = home / "copy"
        shutil.copytree(kafka.data_dir / "b-0", copy)
        return copy, int(found[-1]) / 1000
    finally:
        kafka.close()


def produce(bootstrap_servers: str, size_bytes: int, megabytes: int) -> None:
    """Records that are a batch each."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "batch.num.messages": 1,
            "queue.buffering.max.messages": 100_000,
            "queue.buffering.max.kbytes": 256 << 10,
        }
    )
    value = b"x" * (size_bytes - OVERHEAD_BYTES)
    for _ in range((megabytes << 20) // size_bytes):
        while True:
            try:
                producer.produce("b", value)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(TIMEOUT_S) == 0


if __name__ == "__main__":
    sys.exit(main())
