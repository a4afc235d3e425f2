"""`python -m benchmarks.cluster`: what a cluster of three brokers and a ZooKeeper costs at most.

A topic with a thousand partitions of three replicas: until all brokers' Metadata show every leader
and full ISRs, what idling costs then, and until all are led again after the controller was killed.
Then what one-record Produce feels of a controller failover on its broker that reads 5,000 nodes.

Odradek's brokers say themselves when their loops stalled, and for how much of that they worked: on
few cores three brokers and a ZooKeeper mostly wait for one another; that is shown, not counted.
`--kind kafka` shows Kafka 3.9.2's numbers. Exit code 1 when a limit is passed.
"""

import argparse
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from tests.lab.asking import ask
from tests.lab.cluster import Cluster
from tests.support.waiting import NotYet

from . import wire
from .batches import batch_within
from .connection import Address, call, connect
from .ground import Finding

PARTITIONS: Final = 1_000
REPLICAS: Final = 3
STATES: Final = 5_000
IDLE_S: Final = 60.0
STALL_MS: Final = 50
STALLED: Final = re.compile(r"loop stalled ms=(\d+) cpu_ms=(\d+) queued_ms=(\d+)")
WIDE: Final = f"{PARTITIONS:,} partitions of {REPLICAS} replicas"
TIMEOUT_S: Final = 60.0
KINDS: Final = ("odradek", "kafka")
WATCHED: Final = {"odradek": {"odradek.loop.stall.check.ms": "5"}, "kafka": {}}
"""A timer that fires every 5 ms may cost two percent of a core: only to look for stalls."""
POLL_S: Final = 0.1
BETWEEN_PRODUCES_S: Final = 0.002
AROUND_FAILOVER_S: Final = 1.0


def started(kind: str, settings: Mapping[str, str]) -> Cluster:
    """Three brokers that run, with a ZooKeeper."""
    lab = Cluster(kind, settings=settings)
    try:
        lab.start_zookeeper()
        lab.start()
    except BaseException:
        lab.close()
        raise
    return lab


def create(lab: Cluster, topic: str, partitions: int, replicas: int = REPLICAS) -> float:
    """Seconds from CreateTopics until each broker's Metadata shows leaders and full ISRs."""
    new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas)
    began_s = time.monotonic()
    controller = lab.controller()
    assert controller is not None
    request = CreateTopicsRequest(topics=[new], timeout_ms=int(TIMEOUT_S * 1000))
    answer = ask(lab.brokers[controller].address, request, 7)
    if answer.topics[0].error_code:
        raise RuntimeError(f"CreateTopics: {answer.topics[0].error_message}")
    wait_until_led(lab, {topic: partitions}, isr_size=replicas)
    return time.monotonic() - began_s


def wait_until_led(lab: Cluster, topics: Mapping[str, int], isr_size: int) -> None:
    """Wait until each running broker's Metadata shows live leaders, and ISRs as large as this.

    Raises: NotYet.
    """
    running = [broker for broker in lab.brokers.values() if broker.alive]
    live = {broker.id for broker in running}
    deadline_s = time.monotonic() + TIMEOUT_S
    for broker in running:
        while not _all_led(broker.address, topics, live, isr_size):
            if time.monotonic() > deadline_s:
                raise NotYet(f"broker {broker.id} does not show all leaders, or no full ISRs")
            time.sleep(POLL_S)


def _all_led(
    address: tuple[str, int], topics: Mapping[str, int], live: set[int], isr_size: int
) -> bool:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer: MetadataResponse = ask(address, request, 12)
    led = {
        str(topic.name): sum(
            partition.leader_id in live and len(partition.isr_nodes) >= isr_size
            for partition in topic.partitions
        )
        for topic in answer.topics
    }
    return all(led.get(topic) == count for topic, count in topics.items())


def end_of_controller(lab: Cluster) -> float:
    """Kill the controller; return the moment when its session's node was gone (`monotonic`)."""
    gone = threading.Event()
    moments: list[float] = []

    def look(event: Any) -> None:
        moments.append(time.monotonic())
        gone.set()

    lab.client.exists("/controller", watch=look)
    controller = lab.controller()
    assert controller is not None
    lab.kill(controller)
    if not gone.wait(TIMEOUT_S):
        raise NotYet("/controller is still there")
    return moments[0]


def cpu_percent(lab: Cluster, seconds: float) -> dict[int, float]:
    """What each running broker needs of a core."""
    before = {broker.id: _cpu_s(broker.pid) for broker in lab.brokers.values() if broker.alive}
    began_s = time.monotonic()
    time.sleep(seconds)
    took_s = time.monotonic() - began_s
    return {
        broker: (_cpu_s(lab.brokers[broker].pid) - used_s) / took_s * 100
        for broker, used_s in before.items()
    }


def _cpu_s(pid: int) -> float:
    """User and system time of a process; Linux only."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(lab: Cluster) -> float:
    """VmRSS of the largest running broker."""
    return max(
        int(re.findall(r"VmRSS:\s+(\d+)", _status(broker.pid))[0]) / 1024
        for broker in lab.brokers.values()
        if broker.alive
    )


def _status(pid: int) -> str:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return file.read()


class Stall(NamedTuple):
    """What a broker has logged of one."""

    late_ms: int
    cpu_ms: int
    queued_ms: int

    @property
    def own_ms(self) -> int:
        """Without what the machine gave to others."""
        return self.late_ms - self.queued_ms


def stalls(lab: Cluster) -> list[Stall]:
    """Every stall that a broker has seen, from their own logs."""
    found: list[Stall] = []
    for broker in lab.brokers.values():
        log = (broker.directory / "broker.out").read_text(errors="replace")
        found += [Stall(*map(int, stall)) for stall in STALLED.findall(log)]
    return found


def longest_stall(kind: str, lab: Cluster) -> Iterator[Finding]:
    """By work of the broker; the note has what it waited, for whatever reason."""
    if kind == "odradek":
        found = stalls(lab)
        cpu_ms = max((stall.cpu_ms for stall in found), default=0)
        own_ms = max((stall.own_ms for stall in found), default=0)
        late_ms = max((stall.late_ms for stall in found), default=0)
        note = f"{len(found)} stalls; with waiting {own_ms} ms, with what others ran {late_ms} ms"
        yield Finding("… longest stall of a loop by its own work", cpu_ms, "ms", STALL_MS, note)


def thousand(kind: str) -> Iterator[Finding]:
    """A wide topic made, and led again after a controller's death."""
    with started(kind, WATCHED[kind]) as lab:
        took_s = create(lab, "wide", PARTITIONS)
        yield Finding(f"{WIDE}, created: all leaders and ISRs shown", took_s, "s", 10)
        gone_s = end_of_controller(lab)
        wait_until_led(lab, {"wide": PARTITIONS}, isr_size=1)
        took_s = time.monotonic() - gone_s
        yield Finding("… controller killed: all led again after its session", took_s, "s", 3)
        yield from longest_stall(kind, lab)


def idle(kind: str) -> Iterator[Finding]:
    """The wide topic left alone."""
    with started(kind, {}) as lab:
        create(lab, "wide", PARTITIONS)
        percents = cpu_percent(lab, IDLE_S)
        each = ", ".join(f"{percent:.2f}" for percent in percents.values())
        name = f"{WIDE}, idle for {IDLE_S:.0f} s, of a core"
        yield Finding(name, max(percents.values()), "%", 3, f"brokers: {each}")
        yield Finding("… memory of the largest broker", memory_mib(lab), "MiB", 100)
        yield from longest_stall(kind, lab)


def produce(address: Address, topic: str, ending: threading.Event) -> list[float]:
    """Milliseconds of each one-record Produce to partition 0 until it is to end."""
    batch, _ = batch_within(1024, 100)
    frame = wire.produce_request(topic, 0, batch)
    took_ms = []
    with connect(address) as connected:
        while not ending.is_set():
            began_s = time.perf_counter()
            answer = call(connected, frame)
            took_ms.append((time.perf_counter() - began_s) * 1000)
            position = wire.produce_error_position(topic) - 4
            if answer[position : position + 2] != b"\0\0":
                raise RuntimeError("Produce was refused")
            time.sleep(BETWEEN_PRODUCES_S)
    return took_ms


def failover_beside_produce(kind: str) -> Iterator[Finding]:
    """One broker leads the written partition and becomes the controller of 5,000 partitions."""
    with started(kind, WATCHED[kind]) as lab:
        create(lab, "written", 1, 1)
        for number in range(STATES // PARTITIONS):
            create(lab, f"wide-{number}", PARTITIONS, 1)
        leader = _leader(lab, "written")
        if lab.controller() == leader:
            lab.make_controller((leader + 1) % len(lab.brokers))
            time.sleep(AROUND_FAILOVER_S)
        took_ms: list[float] = []
        ending = threading.Event()
        address = Address(*lab.brokers[leader].address)
        writer = threading.Thread(
            target=lambda: took_ms.extend(produce(address, "written", ending)), daemon=True
        )
        writer.start()
        try:
            time.sleep(AROUND_FAILOVER_S)
            before = len(took_ms)
            lab.make_controller(leader)
            wait_until_quiet(lab, leader)
        finally:
            ending.set()
            writer.join()
        took_ms = sorted(took_ms[before:])
        p99_ms = took_ms[int(len(took_ms) * 0.99)]
        note = f"max {took_ms[-1]:.1f} ms of {len(took_ms)}"
        yield Finding(f"one-record p99 beside a failover of {STATES:,}", p99_ms, "ms", 25, note)
        yield from longest_stall(kind, lab)


def _leader(lab: Cluster, topic: str) -> int:
    return int(lab.tree()[f"/brokers/topics/{topic}/partitions/0/state"].json["leader"])


def wait_until_quiet(lab: Cluster, broker: int) -> None:
    """Wait until a broker has little to do for a while: its failover is over."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        used_s = _cpu_s(lab.brokers[broker].pid)
        time.sleep(AROUND_FAILOVER_S)
        if _cpu_s(lab.brokers[broker].pid) - used_s < 0.5 * AROUND_FAILOVER_S:
            return


LIMITS: Final[dict[str, Callable[[str], Iterator[Finding]]]] = {
    "thousand": thousand,
    "idle": idle,
    "failover": failover_beside_produce,
}


def main(arguments: list[str]) -> int:
    """Check the limits, one line each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(LIMITS))
    parser.add_argument("--kind", choices=KINDS, default="odradek")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the cluster ends with us
    findings = []
    for name in given.only or LIMITS:
        for finding in LIMITS[name](given.kind):
            print(finding, flush=True)
            findings.append(finding)
    print("load average", *(f"{load:.2f}" for load in os.getloadavg()))
    return 0 if all(finding.met for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
