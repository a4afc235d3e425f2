"""`python -m benchmarks.limits`: what a broker may cost at most.

Idle connections, members of groups, a topic with a thousand partitions (also with every fsync made
5 ms slower), and starts: with that topic, with ten thousand partitions that hold records, and after
`kill -9` with a gigabyte of batches whose tail must be scanned. Exit code 1 when a limit is passed.
"""

import argparse
import contextlib
import json
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from . import topics, wire
from .batches import batch_within
from .brokers import Kind, RunningBroker
from .connection import call, call_once, connect
from .ground import Finding, Ground
from .group_members import heartbeats, large_group
from .slow_fsync import SlowFsync

CONNECTIONS: Final = 1_000
PARTITIONS: Final = 1_000
MANY_PARTITIONS: Final = 10_000
RECORDS_EACH: Final = 3
IDLE_S: Final = 10.0
SLOW_FSYNC_US: Final = 5_000


def idle_connections(ground: Ground) -> Iterator[Finding]:
    """Memory for connections that said ApiVersions once and then nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * CONNECTIONS)), hard))
    with ground.broker() as broker, contextlib.ExitStack() as stack:
        frame = wire.api_versions_request()

        def open_one() -> socket.socket:
            connected = stack.enter_context(connect(broker.address))
            call(connected, frame)
            return connected

        # What the first connections allocate once is not the price of a connection.
        for _ in range(20):
            open_one()
        before_bytes = broker.memory_bytes()
        for _ in range(CONNECTIONS):
            open_one()
        each_kib = (broker.memory_bytes() - before_bytes) / CONNECTIONS / 1024
    yield Finding(f"{CONNECTIONS:,} idle connections, each", each_kib, "KiB", 20)


def many_partitions(ground: Ground) -> Iterator[Finding]:
    """Creating the topic, and starting again with it."""
    with ground.broker() as broker:
        created_s, served_s = _create_wide(broker)
    note = f"last partition served after {served_s:.3f} s"
    yield Finding(f"a topic of {PARTITIONS:,} partitions, created", created_s, "s", 3, note)
    yield Finding("… started again with it", ground.restart_s(), "s", 2)


def many_partitions_slow_disk(ground: Ground) -> Iterator[Finding]:
    """The same with every fsync 5 ms slower, as grouped commits must bear it."""
    slow = SlowFsync(ground.directory / "shim", delay_us=SLOW_FSYNC_US)
    with ground.broker(env=slow.env) as broker:
        before = slow.count
        created_s, served_s = _create_wide(broker)
        fsyncs = slow.count - before
    if not slow.count:
        raise RuntimeError("no fsync was counted: the library was not loaded")
    name = f"… created, {SLOW_FSYNC_US // 1000} ms more in every fsync"
    yield Finding(
        name, created_s, "s", 5, f"{fsyncs} fsyncs, last partition served after {served_s:.3f} s"
    )


def ten_thousand(ground: Ground) -> Iterator[Finding]:
    """A clean stop with ten thousand partitions, the start after it, and what idling costs then."""
    with ground.broker() as broker:
        _create_wide(broker, MANY_PARTITIONS)
        _append_to_each(broker, MANY_PARTITIONS)
        began = time.perf_counter()
    stopped_s = time.perf_counter() - began
    yield Finding(f"{MANY_PARTITIONS:,} partitions with records, stopped", stopped_s, "s", 30)
    with ground.broker() as broker:
        yield Finding("… started again after the clean stop", broker.ready_s, "s", 5)
        time.sleep(IDLE_S)
        yield Finding("… memory when idle", broker.memory_bytes() / 2**20, "MB", 150)


def _append_to_each(broker: RunningBroker, partitions: int) -> None:
    """A few batches of one record into each partition of the wide topic."""
    batch, _ = batch_within(1024, 100)
    with connect(broker.address) as connected:
        for number in range(partitions * RECORDS_EACH):
            call(connected, wire.produce_request("wide", number % partitions, batch))


def crash_16k(ground: Ground) -> Iterator[Finding]:
    """A gigabyte in batches of a little over 16 KiB."""
    yield _restart_after_crash(ground, batch_size_bytes_max=17 << 10, value_bytes=1024, limit_s=1)


def crash_1k(ground: Ground) -> Iterator[Finding]:
    """A gigabyte in batches of 1 KiB, one record each."""
    yield _restart_after_crash(ground, batch_size_bytes_max=1024, value_bytes=950, limit_s=3)


def _create_wide(broker: RunningBroker, partitions: int = PARTITIONS) -> tuple[float, float]:
    """Seconds to the answer of CreateTopics, and to the last partition's first good answer."""
    frame = wire.create_topic_request("wide", partitions, {})
    began = time.perf_counter()
    topic_id = wire.created_topic_id(call_once(broker.address, frame))
    created_s = time.perf_counter() - began
    topics.wait_served(broker.address, topic_id, partitions - 1)
    return created_s, time.perf_counter() - began


def _restart_after_crash(
    ground: Ground, *, batch_size_bytes_max: int, value_bytes: int, limit_s: float
) -> Finding:
    with ground.broker(crash=True) as broker:
        topic = topics.create(broker.address, "crash")
        filling = topics.fill(
            broker.address,
            topic,
            size_bytes=1_000_000_000,
            batch_size_bytes_max=batch_size_bytes_max,
            value_size_bytes=value_bytes,
            depth=16,
        )
    with ground.broker() as broker:
        ready_s = broker.ready_s
        last = wire.fetch_request(
            topic.topic_id, 0, offset=filling.record_count - 1, bytes_max=1 << 20
        )
        answer = call_once(broker.address, last.data)
    error_code = wire.fetch_error(answer)
    if error_code or len(answer) < filling.batch_size_bytes:
        raise RuntimeError(f"the last acknowledged record is gone, error code {error_code}")
    name = f"start after kill -9, 1 GB in batches of {filling.batch_size_bytes:,} bytes"
    return Finding(name, ready_s, "s", limit_s, "last record there")


LIMITS: Final[dict[str, Callable[[Ground], Iterator[Finding]]]] = {
    "connections": idle_connections,
    "partitions": many_partitions,
    "partitions_slow_disk": many_partitions_slow_disk,
    "ten_thousand": ten_thousand,
    "heartbeats": heartbeats,
    "large_group": large_group,
    "crash_16k": crash_16k,
    "crash_1k": crash_1k,
}


def main(arguments: list[str]) -> int:
    """Check the limits, one line each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(LIMITS))
    parser.add_argument(
        "--broker", type=Kind, choices=[Kind.ODRADEK, Kind.KAFKA], default="odradek"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--directory", type=Path, help="where the broker's files go meanwhile")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the broker ends with us
    findings = []
    for name in given.only or LIMITS:
        directory = Path(tempfile.mkdtemp(prefix="odradek-limits-", dir=given.directory))
        try:
            for finding in LIMITS[name](Ground(given.broker, directory)):
                print(finding, flush=True)
                findings.append(finding)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    if given.json:
        listed = [{**asdict(finding), "met": finding.met} for finding in findings]
        given.json.write_text(json.dumps(listed, indent=1, ensure_ascii=False) + "\n")
    return 0 if all(finding.met for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
