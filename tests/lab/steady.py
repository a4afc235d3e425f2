"""A cluster under a steady load with random faults, and what one broker that lives on needs of all.

The last broker is never ended: others are, around it, and it is only made to wait. Most of the load
goes to one topic with short retention, and is only counted. Beside it small workloads follow one
another, each with a topic of its own, which is verified (the replicas' logs, too) and deleted while
the next one runs: to verify all would take longer than to write it.
"""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import psutil
from kazoo.handlers.threading import KazooTimeoutError

from tests.lab import admin
from tests.lab.brokers import KINDS, OdradekBroker
from tests.lab.cluster import Cluster
from tests.lab.verify.workload import Workload
from tests.support.waiting import until

KIND: Final = "odradek-counted"
COUNTED: Final = "counted"
PARTITIONS: Final = 6
WATCHED: Final = 2
SAMPLE_S: Final = 5.0
MEASURE_S: Final = 20.0
UNBOUNDED: Final = 1_000_000
WRITERS: Final = ("librdkafka", "java", "aiokafka")
KEPT_PER_S: Final = 300
"""So much of what each writes is verified."""
IN_FLIGHT: Final = 5000
"""Unanswered records a writer: what it may have sent while a leader is elected."""
BOUNDED: Final = {
    "segment.bytes": str(16 << 20),
    "retention.bytes": str(64 << 20),
    "file.delete.delay.ms": "1000",
}
FAULTS: Final = ("kill", "restart", "pause", "wait", "zookeeper")
BETWEEN_FAULTS_S: Final = (20.0, 60.0)
PAUSED_S: Final = 1.0
SETTLE_S: Final = 90.0
TRIES: Final = 3
ANSWER_TIMEOUT_S: Final = 30.0
FLAT: Final = 0.05
"""So much of what there was may come to it from the end of the warm-up to the end of the run."""
APART: Final = 0.75
"""So much of that time lies between the middles of the first and the last quarter."""
# Connections come and go: so many are noise.
FEW: Final = 5


class CountedBroker(OdradekBroker):
    """Odradek, and how many tasks it has."""

    def tasks(self) -> int:
        """How many its event loop has now.  Raises: NotYet."""
        path = self.directory / "tasks"
        path.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        until(path.exists, f"broker {self.id} tells its tasks", ANSWER_TIMEOUT_S)
        return int(json.loads(path.read_text())["tasks"])

    def _command(self) -> list[str]:
        python, _, _, *words = super()._command()
        return [python, "-m", "tests.lab.counted", str(self.directory / "tasks"), *words]


KINDS[KIND] = CountedBroker


class Sample(NamedTuple):
    """What the watched broker held at a time."""

    at_s: float
    pss_bytes: int
    descriptors: int
    tasks: int


@dataclass
class Steady:
    """One run; `samples` and `faults` grow with it."""

    lab: Cluster
    seed: int
    samples: list[Sample] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    acknowledged: int = 0
    _topics: int = 0

    def measure(self) -> dict[str, float]:
        """Records a second and kind of client, when all write as fast as they can."""
        with self._counted("measured", UNBOUNDED) as load:
            begin_s, before = time.monotonic(), load.acknowledged_by_kind
            self._pass_time(MEASURE_S, [])
            seconds, counts = time.monotonic() - begin_s, load.acknowledged_by_kind - before
        admin.delete_topic(self.lab, load.topic)
        return {kind: counts[kind] / seconds for kind in WRITERS}

    def run(self, seconds: float, workload_s: float, per_s: Mapping[str, float]) -> None:
        """Load for so long; what is kept of it is checked.  Raises: AssertionError."""
        rates = {kind: max(1, round(per_s[kind]) - KEPT_PER_S) for kind in WRITERS}
        with self._counted(COUNTED, rates) as counted:
            self._keep(seconds, workload_s)
        assert counted.failed == 0
        self.acknowledged += counted.acknowledged

    def _keep(self, seconds: float, workload_s: float) -> None:
        chance = random.Random(self.seed)
        begin_s = time.monotonic()
        before: Workload | None = None
        while time.monotonic() - begin_s < seconds:
            with self._kept() as load:
                end_s = time.monotonic() + workload_s
                if before is not None:
                    self._check(before)
                while (left_s := end_s - time.monotonic()) > 0:
                    self._pass_time(min(left_s, chance.uniform(*BETWEEN_FAULTS_S)), self.samples)
                    self._befall(chance)
            before = load
        assert before is not None
        self._check(before)

    def _check(self, load: Workload) -> None:
        assert load.verify() == [], load.history
        assert load.failed == 0, load.history
        self._settle()
        assert load.compare_logs() == [], load.history
        self.acknowledged += load.acknowledged
        admin.delete_topic(self.lab, load.topic)
        load.history.unlink()  # it was good, and there are many
        self._sample(self.samples)

    def _counted(self, topic: str, rate: int | Mapping[str, int]) -> Workload:
        return Workload(
            self.lab,
            topic,
            partitions=PARTITIONS,
            writers=WRITERS,
            rate=rate,
            in_flight=IN_FLIGHT,
            configs=BOUNDED,
            history=Path(os.devnull),
        )

    def _kept(self) -> Workload:
        self._topics += 1
        topic = f"steady-{self._topics}"
        history = self.lab.history.path.with_name(f"{self.lab.history.path.stem}-{topic}.jsonl")
        return Workload(self.lab, topic, writers=WRITERS, rate=KEPT_PER_S, history=history)

    def _befall(self, chance: random.Random) -> None:
        lab = self.lab
        victim = chance.choice([broker for broker in lab.brokers if broker != WATCHED])
        name = chance.choice(FAULTS)
        match name:
            case "kill":
                self._let_others_lead(victim, lab.kill)
            case "restart":
                self._let_others_lead(victim, lab.stop)
            case "pause":
                self._pause(victim)
            case "wait":
                self._pause(WATCHED)
            case "zookeeper":
                lab.kill_zookeeper()
                lab.start_zookeeper()
        self.faults.append(name)
        self._settle()
        admin.elect_preferred(lab, None)

    def _let_others_lead(self, victim: int, end: Callable[[int], None]) -> None:
        """It comes back when they do: else a fault would count that had no effect."""
        led = [each for each in range(PARTITIONS) if self.lab.leader(COUNTED, each) == victim]
        assert led, f"broker {victim} leads nothing"
        end(victim)
        until(
            lambda: all(self.lab.leader(COUNTED, each) not in (victim, -1) for each in led),
            f"others lead {led} instead of broker {victim}",
        )
        self.lab.start(victim)

    def _settle(self) -> None:
        """What the laboratory asked of a ZooKeeper that died just then is asked again."""
        for _ in range(TRIES - 1):
            with suppress(KazooTimeoutError):
                self.lab.settle(timeout_s=SETTLE_S)
                return
        self.lab.settle(timeout_s=SETTLE_S)

    def _pause(self, broker: int) -> None:
        """For a moment only: its session lives on."""
        self.lab.pause(broker)
        time.sleep(PAUSED_S)
        self.lab.resume(broker)

    def _pass_time(self, seconds: float, samples: list[Sample]) -> None:
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            self._sample(samples)
            time.sleep(min(SAMPLE_S, left_s))

    def _sample(self, samples: list[Sample]) -> None:
        broker = self.lab.brokers[WATCHED]
        assert isinstance(broker, CountedBroker)
        process = psutil.Process(broker.pid)
        pss_bytes = process.memory_full_info().pss
        at_s = time.monotonic()
        samples.append(Sample(at_s, pss_bytes, process.num_fds(), broker.tasks()))


def grown(samples: Sequence[Sample], warm_s: float) -> list[str]:
    """What is not flat after the warm-up: medians of the last quarter against the first one."""
    begin_s = samples[0].at_s + warm_s
    rest = [sample for sample in samples if sample.at_s >= begin_s]
    if len(rest) < 8:
        return [f"only {len(rest)} samples after {warm_s:.0f} s"]
    quarter = len(rest) // 4
    found = []
    for name, noise in (("pss_bytes", 0), ("descriptors", FEW), ("tasks", FEW)):
        first = median(getattr(sample, name) for sample in rest[:quarter])
        last = median(getattr(sample, name) for sample in rest[-quarter:])
        if last > first * (1 + FLAT * APART) + noise:
            found.append(f"{name} grew from {first:.0f} to {last:.0f}")
    return found


def write_samples(samples: Sequence[Sample], path: Path) -> None:
    """As a table that any tool can draw."""
    rows = [",".join(Sample._fields), *(",".join(map(str, sample)) for sample in samples)]
    path.write_text("\n".join(rows) + "\n")
