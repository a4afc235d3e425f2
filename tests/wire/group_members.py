"""Members of groups as child processes (`group_member.py`), and brokers that are quick with groups.

A `Crew` starts the members of one group, hears what they print and ends them by any signal.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.waiting import NotYet, until
from tests.wire.clients import librdkafka
from tests.wire.group_member import Spec, parts
from tests.wire.servers import Server, make_server

HEARTBEAT_MS: Final = 100
SESSION_MS: Final = 1_500
# Sessions as short as the tests want them; both protocols beat as fast.
QUICK: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
}
CLASSIC: Final[dict[str, Any]] = {
    "heartbeat.interval.ms": HEARTBEAT_MS,
    "session.timeout.ms": SESSION_MS,
}
# What is tried: a client and how it takes part.
FLAVOURS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "kafka-python": ("kafka-python", CLASSIC),
    "kafka-python-cooperative": (
        "kafka-python",
        {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    ),
    "aiokafka": ("aiokafka", CLASSIC),
    "confluent-range": ("confluent", {**CLASSIC, "partition.assignment.strategy": "range"}),
    "confluent-cooperative": (
        "confluent",
        {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    ),
    "confluent-consumer": ("confluent", {"group.protocol": "consumer"}),
}
TIMEOUT_S: Final = 60.0
Event = dict[str, Any]
WORK: Final = ("read", "committed")


@contextmanager
def quick_server(target: str, directory: Path, **settings: str) -> Iterator[Server]:
    """A running broker with `QUICK` settings."""
    broker = make_server(target, directory, {**QUICK, **settings})
    try:
        broker.start()
        yield broker
        assert broker.alive, f"the broker ended during the tests\n{broker.output}"
    finally:
        broker.close()


class Member:
    """One child process; `events` is all it has said so far, each with the member's `name`."""

    def __init__(self, name: str, spec: Spec, heard: threading.Condition, go: bool) -> None:
        self.name = name
        self.events: list[Event] = []
        self.owned: frozenset[str] = frozenset()
        self.generation = 0
        self._heard = heard
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.wire.group_member", json.dumps(asdict(spec))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=f, daemon=True) for f in (self._read, self._moan)]
        for thread in self._threads:
            thread.start()
        if go:
            self.go()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            with self._heard:
                self.events.append({**event, "name": self.name, "time_s": time.monotonic()})
                self.owned = _owned_after(self.owned, event)
                if event["event"] == "owns":
                    self.generation = event["generation"]
                self._heard.notify_all()

    def _moan(self) -> None:
        assert self._process.stderr is not None
        self.errors += self._process.stderr

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def said(self, event: str) -> list[Event]:
        """All events of one kind."""
        return [found for found in list(self.events) if found["event"] == event]

    def go(self) -> None:
        """Let it subscribe."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def leave(self) -> None:
        """SIGTERM: it leaves the group as its client does.  Returns at once."""
        self._process.send_signal(signal.SIGTERM)

    def crash(self) -> None:
        """SIGKILL: nobody says good-bye."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP: silent, but alive."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def trace(self) -> None:
        """Have a living member write to `errors` where its threads are."""
        before = len(self.errors)
        if self.alive and self.said("ready"):
            self._process.send_signal(signal.SIGUSR1)
            with suppress(NotYet):
                until(lambda: len(self.errors) > before, timeout_s=2)

    def wait(self) -> None:
        """Until it has ended and all it said was heard."""
        self._process.wait(TIMEOUT_S)
        for thread in self._threads:
            thread.join(TIMEOUT_S)

    def close(self) -> None:
        """End it by force."""
        self._process.kill()
        self.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


class Crew:
    """The members of one group, living and dead."""

    def __init__(self, server: Server, group_id: str, flavour: str, **where: Any) -> None:
        self.server, self.group_id = server, group_id
        self._client, self._settings = FLAVOURS[flavour]
        self._where = where
        self.heard = threading.Condition()
        self.members: list[Member] = []

    def start(self, *, go: bool = True, **settings: Any) -> Member:
        """Another member; underscores in the names of settings stand for dots."""
        more = {name.replace("_", "."): value for name, value in settings.items()}
        spec = Spec(
            client=self._client,
            servers=self.server.bootstrap_servers,
            group_id=self.group_id,
            settings={**self._settings, **more},
            **self._where,
        )
        member = Member(f"member-{len(self.members)}", spec, self.heard, go)
        self.members.append(member)
        return member

    def wait_until(
        self, holds: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Until what the members said makes it true."""
        with self.heard:
            assert self.heard.wait_for(holds, timeout_s), f"not {what}\n{self.told()}"

    def wait_for_owners(self, partitions: Sequence[str], members: Sequence[Member]) -> None:
        """Until each of the members owns some of the partitions, and each partition has one owner.

        Members that exist only to be idle are not meant.
        """

        def settled() -> bool:
            owned = [partition for member in members for partition in member.owned]
            return sorted(owned) == sorted(partitions) and all(m.owned for m in members)

        self.wait_until(settled, f"{partitions} shared by {[m.name for m in members]}")

    def events(self, kind: str) -> list[Event]:
        """What all members said of one kind, in the order it was heard."""
        with self.heard:
            found = [event for member in self.members for event in member.said(kind)]
        return sorted(found, key=lambda event: event["time_s"])

    def covers(self, ends: dict[str, int]) -> bool:
        """Whether all records below the ends of the partitions were read by somebody."""
        return not missing(self.events("read"), ends)

    def history(self) -> list[str]:
        """A line for all that was said, in the order it was heard."""
        said = self._said()
        return [_line(event, said[0]["time_s"]) for event in said]

    def history_of(self, partition: str, until_s: float) -> list[str]:
        """The same of one partition; where a member reads and commits for long, how that begins
        and ends."""
        said, lines = self._said(), list[str]()
        wanted = [e for e in said if _concerns(e, partition) and e["time_s"] <= until_s]
        for (_, is_work), events in groupby(wanted, lambda e: (e["name"], e["event"] in WORK)):
            some = [_line(event, said[0]["time_s"]) for event in events]
            lines += [*some[:2], "...", *some[-4:]] if is_work and len(some) > 7 else some
        return lines

    def _said(self) -> list[Event]:
        with self.heard:
            events = [event for member in self.members for event in member.events]
        return sorted(events, key=lambda event: event["time_s"])

    @contextmanager
    def kept(self, path: Path) -> Iterator[None]:
        """If what is done in the `with` fails, keep what was said; the failure names the file."""
        try:
            yield
        except BaseException as error:
            path.write_text("\n".join([*self.history(), self.server.output]))
            error.add_note(f"all that members and broker said: {path}")
            raise

    def told(self) -> str:
        """What each member said last, for the message of a failure."""
        for member in self.members:
            member.trace()
        lines = []
        for member in self.members:
            said = [{k: v for k, v in e.items() if k != "time_s"} for e in member.events[-8:]]
            state = "alive" if member.alive else "ended"
            lines.append(f"{member.name} {state}: {said}\n  {''.join(member.errors[-60:])}")
        return "\n".join(lines) + "\nbroker: " + self.server.output[-2000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.close()


def missing(reads: Sequence[Event], ends: dict[str, int]) -> dict[str, list[int]]:
    """Offsets that nobody was handed: at most the first ten of each partition."""
    found: dict[str, list[int]] = {}
    for partition, end in ends.items():
        spans = sorted((r["first"], r["last"]) for r in reads if r["partition"] == partition)
        position = 0
        gaps: list[int] = []
        for first, last in [*spans, (end, end)]:
            gaps += range(position, min(first, end))[:10]
            position = max(position, last + 1)
        if gaps:
            found[partition] = gaps[:10]
    return found


def fill(server: Server, topic: str, partitions: int, count: int) -> dict[str, int]:
    """Write so many records to each partition; the ends of the partitions after that."""
    producer = Producer(librdkafka(server.bootstrap_servers))
    for partition in range(partitions):
        for number in range(count):
            producer.produce(topic, str(number), partition=partition)
    assert producer.flush(30) == 0
    return {f"{topic}:{partition}": count for partition in range(partitions)}


def committed_in(broker: Server, group: str, partitions: Sequence[str]) -> dict[str, int]:
    """What is committed, as somebody outside the group sees it; waits for a coordinator.

    Asked by a consumer: librdkafka's admin client does not wait while offsets are loaded.
    """
    consumer = Consumer(librdkafka(broker.bootstrap_servers, **{"group.id": group}))
    try:
        asked = [TopicPartition(*parts(name)) for name in partitions]
        found = consumer.committed(asked, timeout=TIMEOUT_S)
    finally:
        consumer.close()
    return {f"{tp.topic}:{tp.partition}": tp.offset for tp in found if tp.offset >= 0}


def latest_commits(crew: Crew) -> dict[str, int]:
    latest: dict[str, int] = {}
    for event in crew.events("committed"):
        latest.update(event["offsets"])
    return latest


class Writer:
    """A producer that writes 0, 1, 2, ... to each partition of a topic until it is stopped."""

    def __init__(
        self, server: Server, topic: str, partitions: int, *, per_second: int = 600
    ) -> None:
        settings = {"linger.ms": 5, "enable.idempotence": True, "reconnect.backoff.max.ms": 100}
        self._producer = Producer(librdkafka(server.bootstrap_servers, **settings))
        self._topic = topic
        self._sent = [0] * partitions
        self._pause_s = partitions / per_second
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        while not self._stopping.wait(self._pause_s):
            for partition, number in enumerate(self._sent):
                self._producer.produce(self._topic, str(number), partition=partition)
                self._sent[partition] += 1
            self._producer.poll(0)

    def finish(self) -> dict[str, int]:
        """Stop; the ends of all partitions."""
        self._stopping.set()
        self._thread.join(TIMEOUT_S)
        assert self._producer.flush(30) == 0
        return {f"{self._topic}:{p}": sent for p, sent in enumerate(self._sent)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(TIMEOUT_S)
        self._producer.purge()


def _concerns(event: Event, partition: str) -> bool:
    """Whether it says something of the partition, or of the whole member."""
    if "partition" in event:
        return bool(event["partition"] == partition)
    named: Any = event.get("partitions", event.get("offsets", [partition]))
    return partition in named


def _line(event: Event, begin_s: float) -> str:
    said = {k: v for k, v in event.items() if k not in ("time_s", "name", "event")}
    words = " ".join(f"{name}={value}" for name, value in said.items())
    return f"{event['time_s'] - begin_s:.3f} {event['name']} {event['event']} {words}"


def _owned_after(owned: frozenset[str], event: Event) -> frozenset[str]:
    if event["event"] == "owns":
        return frozenset(event["partitions"])
    if event["event"] == "gives_up":
        return owned - frozenset(event["partitions"])
    return frozenset() if event["event"] == "left" else owned
