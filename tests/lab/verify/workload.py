"""Verifiable clients write to a laboratory cluster; afterwards everything is read back and checked.

    with Workload(lab, "kept", writers=("librdkafka", "java", "aiokafka")) as load:
        load.wait_for(20_000, timeout_s=60)
        lab.kill(...)
    assert load.verify() == []

Each writer is a process of its own. All that they see stands in the laboratory's history file.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from tests.lab import admin
from tests.lab.asking import Address, Askable
from tests.lab.cluster import DELIVERY_TIMEOUT_MS, REQUEST_TIMEOUT_MS
from tests.lab.history import History
from tests.lab.waiting import NotYet

from . import checker
from .child import Child, ChildFailed, python
from .events import Sent, load

POLL_S: Final = 0.05
FIRST_ACK_TIMEOUT_S: Final = 30.0
END_TIMEOUT_S: Final = DELIVERY_TIMEOUT_MS / 1000 + 30
READ_TIMEOUT_S: Final = 120.0
REPLICAS: Final = 3
MIN_ISR: Final = 2


class Lab(Askable, Protocol):
    """What a workload needs of a laboratory cluster."""

    history: History

    @property
    def bootstrap_servers(self) -> str: ...

    def addresses(self) -> dict[int, Address]: ...


class Workload:
    """Writers from `__enter__` (which returns when each has an acknowledgement) to `__exit__`.

    The topic is made unless `create` is false.  `rate`: records per second and writer; `in_flight`:
    unanswered records of a writer at most.  `settings` are those of the client named, over the
    laboratory's.  `prefix` goes before each command line: `ip netns exec NAME`, say.
    """

    def __init__(
        self,
        lab: Lab,
        topic: str,
        *,
        partitions: int = 6,
        writers: Sequence[str] = ("librdkafka", "java", "aiokafka"),
        acks: str = "all",
        idempotent: bool = True,
        rate: int = 300,
        in_flight: int = 500,
        record_bytes: int = 100,
        create: bool = True,
        configs: Mapping[str, str] | None = None,
        settings: Mapping[str, Mapping[str, str]] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.writers: list[Child] = []
        self._lab = lab
        self._kinds = writers
        self._create = create
        self._configs = {"min.insync.replicas": str(MIN_ISR), **(configs or {})}
        self._settings = settings or {}
        self._prefix = prefix
        self._told: dict[str, Any] = {
            "history": str(lab.history.path),
            "topic": topic,
            "partitions": partitions,
            "acks": acks,
            "idempotent": idempotent,
            "rate": rate,
            "in_flight": in_flight,
            "record_bytes": record_bytes,
        }

    @property
    def history(self) -> Path:
        """Where everything stands."""
        return self._lab.history.path

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far, by what the writers told last (each 100 ms)."""
        return sum(int(writer.progress.get("acked", 0)) for writer in self.writers)

    @property
    def failed(self) -> int:
        """Records so far of which a client said that they failed or timed out."""
        return sum(int(writer.progress.get("failed", 0)) for writer in self.writers)

    @property
    def longest_pause_s(self) -> float:
        """The longest time without any acknowledgement, between the first and the last."""
        acked = [e for e in load(self.history) if isinstance(e, Sent) and e.code == 0]
        times = sorted(event.sent_s + event.took_s for event in acked)
        return max((b - a for a, b in zip(times, times[1:], strict=False)), default=0.0)

    def wait_for(self, count: int, timeout_s: float) -> None:
        """Until so many more records are acknowledged than now.  Raises: NotYet."""
        wanted = self.acknowledged + count
        deadline_s = time.monotonic() + timeout_s
        while self.acknowledged < wanted:
            self._require_alive()
            if time.monotonic() > deadline_s:
                states = "; ".join(f"{writer.name}: {writer}" for writer in self.writers)
                raise NotYet(
                    f"{self.acknowledged} of {wanted} acknowledged in {timeout_s} s: {states}"
                )
            time.sleep(POLL_S)

    def verify(self) -> list[str]:
        """Read everything back with foreign clients and check the history: [] if all is kept."""
        self._read_back()
        return checker.check(load(self.history))

    def __enter__(self) -> Self:
        if self._create:
            admin.create_topic(
                self._lab,
                self.topic,
                partitions=self.partitions,
                replication_factor=REPLICAS,
                configs=self._configs,
            )
        try:
            for number, kind in enumerate(self._kinds):
                self.writers.append(self._writer(kind, f"{kind}-{number}"))
            for writer in self.writers:
                writer.until("acked", 1, FIRST_ACK_TIMEOUT_S)
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
        if error is not None:
            self._kill()
            return
        try:
            for writer in self.writers:
                writer.ask_to_stop()
            for writer in self.writers:
                writer.wait(END_TIMEOUT_S)
        finally:
            self._kill()

    def _writer(self, kind: str, name: str) -> Child:
        told = {**self._told, "writer": name, "servers": self._servers()}
        told["settings"] = {**SETTINGS_OF[kind](told), **self._settings.get(kind, {})}
        return Child(name, [*self._prefix, *COMMANDS[kind]()], told)

    def _servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._lab.addresses().values())

    def _require_alive(self) -> None:
        for writer in self.writers:
            if not writer.alive:
                raise ChildFailed(f"{writer.name} has ended: {writer}")

    def _read_back(self) -> None:
        for kind in ("librdkafka",):
            name = f"reader-{kind}"
            told = {**self._told, "reader": name, "servers": self._servers()}
            reader = Child(name, python(f"read_{kind}"), told)
            try:
                reader.wait(READ_TIMEOUT_S)
            finally:
                reader.kill()

    def _kill(self) -> None:
        for writer in self.writers:
            writer.kill()


def _librdkafka(told: Mapping[str, Any]) -> dict[str, str]:
    return {
        "acks": str(told["acks"]),
        "enable.idempotence": str(told["idempotent"]).lower(),
        "request.timeout.ms": str(REQUEST_TIMEOUT_MS),
        "delivery.timeout.ms": str(DELIVERY_TIMEOUT_MS),
        "socket.timeout.ms": str(2 * REQUEST_TIMEOUT_MS),
        "retries": str(2**31 - 1),
        "linger.ms": "5",
        "reconnect.backoff.max.ms": "500",
    }


SETTINGS_OF: Final = {"librdkafka": _librdkafka}
COMMANDS: Final = {"librdkafka": lambda: python("write_librdkafka")}
