"""What the broker leaves on disk, read by Kafka's own DumpLogSegments of both versions."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.kafka.java import ToolRunner
from tests.support.brokers import NewTopicName, StartServer, create_topic
from tests.wire.clients import WRITERS, librdkafka, write_confluent
from tests.wire.records import CODECS, Sent, samples, writable_by
from tests.wire.servers import Server

pytestmark = pytest.mark.java

BATCH = re.compile(
    r"^baseOffset: (?P<first>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+)"
    r" .*isTransactional: false isControl: false .*position: (?P<position>\d+)"
    r" .*size: (?P<size>\d+) magic: 2 compresscodec: (?P<codec>\w+) .*isvalid: true$",
    re.M,
)
# 4.3.1 complains so about any segment that does not begin at offset 0, Kafka's own too.
FALSE_ALARM = re.compile(r"^Non-consecutive offsets in \S+\n\s+-1 is followed by \d+$", re.M)
COMPLAINT = re.compile(
    r"mismatch|corrupt|invalid\b|isvalid: false|Could not|non-consecutive|Found timestamp", re.I
)


Dump = Callable[..., list[str]]


@pytest.fixture
def dump(runners: Mapping[str, ToolRunner]) -> Dump:
    """What each version's tool says about these files; it must not complain."""

    def dump(files: Sequence[Path], *arguments: str) -> list[str]:
        return [dump_with(tools, files, *arguments) for tools in runners.values()]

    return dump


def dump_with(tools: ToolRunner, files: Sequence[Path], *arguments: str) -> str:
    names = ",".join(str(path) for path in files)
    ended = tools.run("DumpLogSegments", "--files", names, *arguments)
    printed = ended.stdout + FALSE_ALARM.sub("", ended.stderr)
    complaint = COMPLAINT.search(printed.replace("isvalid: true", "isvalid_true"))
    assert complaint is None, printed[max(0, complaint.start() - 500) : complaint.end() + 500]
    return printed


def log_of(server: Server, topic: str, partition: int = 0) -> Path:
    return server.data_dir / f"{topic}-{partition}" / f"{0:020d}.log"


def test_each_codec(server: Server, new_topic: NewTopicName, dump: Dump) -> None:
    name = new_topic("dump", partitions=len(CODECS))
    records = samples(seed=1)
    write_confluent(
        server.bootstrap_servers, name, [(p, codec, records) for p, codec in enumerate(CODECS)]
    )
    logs = [log_of(server, name, partition) for partition in range(len(CODECS))]
    for printed in dump(logs, "--deep-iteration", "--print-data-log"):
        parts = printed.split("Dumping ")[1:]
        for path, codec, part in zip(logs, CODECS, parts, strict=True):
            batches = list(BATCH.finditer(part))
            assert sum(int(batch["count"]) for batch in batches) == len(records)
            assert sum(int(batch["size"]) for batch in batches) == path.stat().st_size
            # librdkafka sends a batch as it is where compressing it would not help
            used = {batch["codec"] for batch in batches}
            assert {codec} <= used <= {codec, "none"}
            assert len(re.findall(r"^\| offset: ", part, re.M)) == len(records)


def test_each_writer(server: Server, new_topic: NewTopicName, dump: Dump) -> None:
    writers = list(WRITERS)
    name = new_topic("dump-writers", partitions=len(writers))
    for partition, writer in enumerate(writers):
        records = writable_by(writer, samples(seed=2))
        WRITERS[writer](server.bootstrap_servers, name, [(partition, "gzip", records)])
    logs = [log_of(server, name, partition) for partition in range(len(writers))]
    for printed in dump(logs, "--deep-iteration"):
        assert len(BATCH.findall(printed)) >= len(writers)


def test_timestamps_of_append(server: Server, new_topic: NewTopicName, dump: Dump) -> None:
    name = new_topic("append", config={"message.timestamp.type": "LogAppendTime"})
    sent = Sent(b"k", b"v")
    write_confluent(server.bootstrap_servers, name, [(0, "lz4", [sent] * 10)])
    for printed in dump([log_of(server, name)], "--deep-iteration"):
        stamps = [int(stamp) for stamp in re.findall(r"LogAppendTime: (\d+)", printed)]
        assert min(stamps) > sent.timestamp
        assert "CreateTime" not in printed


def test_after_a_clean_stop(start_server: StartServer, dump: Dump) -> None:
    """Several segments, indexes cut to their entries, a snapshot of the idempotent producer."""
    count = 2500
    server = start_server({"log.segment.bytes": "1048576"})
    create_topic(server.bootstrap_servers, "rolled")
    settings = {"batch.size": 8000, "linger.ms": 5, "enable.idempotence": True}
    producer = Producer(librdkafka(server.bootstrap_servers, **settings))
    for n in range(count):
        producer.produce("rolled", value=b"x" * 1000, timestamp=1_700_000_000_000 + n)
        if n % 500 == 0:
            producer.flush()
    assert producer.flush(30) == 0
    server.stop()

    folder = server.data_dir / "rolled-0"
    logs = sorted(folder.glob("*.log"))
    assert len(logs) >= 3
    for printed in dump(logs, "--deep-iteration"):
        assert sum(int(batch["count"]) for batch in BATCH.finditer(printed)) == count
    indexes, times = sorted(folder.glob("*.index")), sorted(folder.glob("*.timeindex"))
    assert len(indexes) == len(times) == len(logs)
    dump(indexes + times, "--verify-index-only")
    for printed in dump(indexes + times, "--index-sanity-check"):
        assert printed.count("passed sanity check") == 2 * len(logs)
    for printed in dump(indexes + times):
        assert len(re.findall(r"^offset: \d+ position: \d+", printed, re.M)) > 50
        assert len(re.findall(r"^timestamp: 17000\d+ offset: \d+", printed, re.M)) > 50
    snapshots = sorted(folder.glob("*.snapshot"))
    assert snapshots[-1].name == f"{count:020d}.snapshot"
    last = rf"producerId: \d+ producerEpoch: 0 .*lastSequence: {count - 1} lastOffset: {count - 1}"
    for printed in dump(snapshots[-1:]):
        assert re.search(last, printed)
