"""Verifiable clients write to a laboratory cluster; afterwards everything is read back and checked.

    with Workload(lab, "kept", writers=("librdkafka", "java", "aiokafka")) as load:
        load.wait_for(20_000, timeout_s=60)
        lab.kill(...)
    assert load.verify() == []

Each client is a process of its own. All that they see stands in the laboratory's history file.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from tests.lab import admin
from tests.lab.asking import Address, Askable
from tests.lab.brokers import BrokerProcess
from tests.lab.cluster import DELIVERY_TIMEOUT_MS
from tests.lab.history import History
from tests.support.waiting import until

from . import checker, effects, logs
from .child import Child, ChildFailed, python
from .clients import command, member_settings, reader_settings, writer_settings
from .events import Event, Sent, Span
from .events import load as load_events

# Seven clients may begin at once, two of them JVMs.
BEGIN_TIMEOUT_S: Final = 120.0
END_TIMEOUT_S: Final = DELIVERY_TIMEOUT_MS / 1000 + 30
READ_TIMEOUT_S: Final = 300.0
REPLICAS: Final = 3
MIN_ISR: Final = 2
COMMIT_MS: Final = 500
READERS: Final = ("java", "librdkafka")


class Lab(Askable, Protocol):
    """What a workload needs of a laboratory cluster."""

    history: History
    brokers: dict[int, BrokerProcess]

    def addresses(self) -> dict[int, Address]: ...


class Workload:
    """Clients from `__enter__` (which returns once each has something to show) to `__exit__`.

    `members`: consumers in groups, one group for each kind of client.  The topic is made unless
    `create` is false, with `configs` over min.insync.replicas=2.  `rate`: records per second and
    writer, or by the kind of client; `in_flight`: a writer's unanswered records at most.
    `settings` are those of the kind of client named, producers first, over the laboratory's.
    `prefix` goes before each client's command line: `ip netns exec NAME`, say.  `history`: a file
    of its own instead of the laboratory's, for a workload that another overlaps.
    """

    def __init__(
        self,
        lab: Lab,
        topic: str,
        *,
        partitions: int = 6,
        writers: Sequence[str] = ("librdkafka", "java", "aiokafka"),
        members: Sequence[str] = (),
        acks: str = "all",
        idempotent: bool = True,
        rate: int | Mapping[str, int] = 300,
        in_flight: int = 500,
        record_bytes: int = 100,
        create: bool = True,
        configs: Mapping[str, str] | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        prefix: Sequence[str] = (),
        history: Path | None = None,
    ) -> None:
        self.history = history or lab.history.path
        self.topic = topic
        self.partitions = partitions
        self.writers: list[Child] = []
        self.members: list[Child] = []
        self._others: list[Child] = []
        self._lab = lab
        self._kinds = (tuple(writers), tuple(members))
        self._create = create
        self._configs = {"min.insync.replicas": str(MIN_ISR), **(configs or {})}
        self._settings = settings or {}
        self._rate = rate
        self._prefix = prefix
        self._events: list[Event] = []
        # A laboratory may see several workloads, one after the other.
        self._begin_bytes = self.history.stat().st_size if self.history.exists() else 0
        self._told: dict[str, Any] = {
            "history": str(self.history),
            "topic": topic,
            "partitions": partitions,
            "acks": acks,
            "idempotent": idempotent,
            "in_flight": in_flight,
            "record_bytes": record_bytes,
            "commit_ms": COMMIT_MS,
        }

    @property
    def events(self) -> list[Event]:
        """What the history holds now; read once after the end."""
        if self._events:
            return self._events
        return load_events(self.history, self._begin_bytes)

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far, by what the writers told last (each 100 ms)."""
        return _total(self.writers, "acked")

    @property
    def acknowledged_by_kind(self) -> Counter[str]:
        """The same, by the kind of client."""
        by_kind = Counter[str]()
        for kind, writer in zip(self._kinds[0], self.writers, strict=True):
            by_kind[kind] += _total([writer], "acked")
        return by_kind

    @property
    def failed(self) -> int:
        """Records so far of which a client said that they failed or timed out."""
        return _total(self.writers, "failed")

    @property
    def polled(self) -> int:
        """Records that the members of groups were given so far."""
        return _total(self.members, "polled")

    @property
    def longest_pause_s(self) -> float:
        """The longest time without any acknowledgement, between the first and the last."""
        acked = [e for e in self.events if isinstance(e, Sent) and e.code == 0]
        times = sorted(event.sent_s + event.took_s for event in acked)
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)

    def wait_for(self, count: int, timeout_s: float) -> None:
        """Until so many more records are acknowledged than now.  Raises: NotYet, ChildFailed."""
        wanted = self.acknowledged + count

        def is_acknowledged() -> bool:
            if self.acknowledged >= wanted:
                return True
            self.require_alive()
            return False

        def states() -> str:
            writers = "; ".join(f"{writer.name}: {writer}" for writer in self.writers)
            return f"{self.acknowledged} of {wanted} acknowledged: {writers}"

        until(is_acknowledged, states, timeout_s)

    def require_alive(self) -> None:
        """No client has ended by itself.  Raises: ChildFailed."""
        for child in (*self.writers, *self.members, *self._others):
            if not child.alive:
                raise ChildFailed(f"{child.name} has ended: {child}")

    def verify(self) -> list[str]:
        """Read everything back with foreign clients and check the history: [] if all is kept."""
        self._read_back()
        self._events = load_events(self.history, self._begin_bytes)
        return checker.check(self._events)

    def compare_logs(self, replicas: Mapping[int, Collection[int]] | None = None) -> list[str]:
        """Where the replicas' files differ below the ends that `verify` found; the cluster rests.

        `replicas`: the brokers that have each partition, if not all.  [] if the files are the same,
        byte for byte.
        """
        ends = {event.partition: event.end for event in self.events if isinstance(event, Span)}
        assert ends, "nothing was read back"
        brokers = self._lab.brokers
        return [
            f"partition {partition}: {text}"
            for partition, end in sorted(ends.items())
            for text in logs.differences(
                {
                    f"broker {broker}": brokers[broker].data_dir / f"{self.topic}-{partition}"
                    for broker in (brokers if replicas is None else replicas[partition])
                },
                end,
            )
        ]

    def missing(self, *, acknowledged: int = 0, kills: int = 0) -> list[str]:
        """What makes a run count and did not happen: [] if there was all of it.

        The kills in the history took effect, and so many records were acknowledged.
        """
        missing = effects.missing(self.events)
        done = sum(1 for _ in effects.done(self.events, effects.KILL))
        if done < kills:
            missing.append(f"only {done} of {kills} kills")
        if self.acknowledged < acknowledged:
            missing.append(f"only {self.acknowledged} of {acknowledged} acknowledged")
        return missing

    def require(self, *, acknowledged: int = 0, kills: int = 0) -> None:
        """As `missing`.  Raises: AssertionError."""
        missing = self.missing(acknowledged=acknowledged, kills=kills)
        assert missing == [], f"{missing} in {self.history}"

    def __enter__(self) -> Self:
        if self._create:
            admin.create_topic(
                self._lab,
                self.topic,
                partitions=self.partitions,
                replication_factor=REPLICAS,
                configs=self._configs,
            )
        writers, members = self._kinds
        try:
            self._others.append(self._monitor(sorted({_group(kind) for kind in members})))
            for number, kind in enumerate(writers):
                self.writers.append(self._writer(kind, f"{kind}-{number}"))
            for number, kind in enumerate(members):
                self.members.append(self._member(kind, f"{kind}-member-{number}"))
            for writer in self.writers:
                writer.until("acked", 1, BEGIN_TIMEOUT_S)
            for member in self.members:
                member.until("polled", 1, BEGIN_TIMEOUT_S)
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                # Members see the last records, the monitor the last high watermark.
                for children in (self.writers, self.members, self._others):
                    for child in children:
                        child.ask_to_stop()
                    for child in children:
                        child.wait(END_TIMEOUT_S)
        finally:
            self._kill()

    def _writer(self, kind: str, name: str) -> Child:
        settings = writer_settings(
            kind, acks=self._told["acks"], idempotent=self._told["idempotent"]
        )
        rate = self._rate if isinstance(self._rate, int) else self._rate[kind]
        return self._client("write", kind, name, writer=name, rate=rate, settings=settings)

    def _member(self, kind: str, name: str) -> Child:
        group = _group(kind)
        settings = member_settings(kind, group)
        return self._client("member", kind, name, member=name, group=group, settings=settings)

    def _client(
        self, role: str, kind: str, name: str, *, settings: Mapping[str, Any], **own: str | int
    ) -> Child:
        over = self._settings.get(kind, {}) if role == "write" else {}
        servers = ",".join(f"{host}:{port}" for host, port in self._lab.addresses().values())
        told = {**self._told, **own, "servers": servers, "settings": {**settings, **over}}
        return Child(name, [*self._prefix, *command(role, kind)], told)

    def _monitor(self, groups: Sequence[str]) -> Child:
        told = {**self._told, "groups": groups, "brokers": self._lab.addresses()}
        return Child("monitor", python("monitor"), told)

    def _read_back(self) -> None:
        """By one after the other: each has the machine to itself."""
        for kind in READERS:
            name = f"reader-{kind}"
            settings = reader_settings(kind)
            reader = self._client("read", kind, name, reader=name, settings=settings)
            try:
                reader.wait(READ_TIMEOUT_S)
            finally:
                reader.kill()

    def _kill(self) -> None:
        for child in (*self.writers, *self.members, *self._others):
            child.kill()


def _group(kind: str) -> str:
    return f"group-{kind}"


def _total(children: Sequence[Child], name: str) -> int:
    return sum(int(child.progress.get(name, 0)) for child in children)
