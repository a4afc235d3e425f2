"""Three Odradek brokers with the embedded store or with ZooKeeper, behind one face.

With the embedded store they share a child process, and what is known of them is what they tell;
with ZooKeeper each has a process, and what is known stands in ZooKeeper.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import pytest

from odradek.broker.coordination.journal import SqliteJournal
from odradek.broker.server import STORE_FILE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.schema import Message
from odradek.testing import Broker
from tests.lab import cluster as laboratory
from tests.lab.asking import Address, ask_until_done, metadata
from tests.lab.waiting import DELETIONS, TIMEOUT_S, TOPICS
from tests.support.waiting import until

BROKERS: Final = (0, 1, 2)
SESSION_S: Final = laboratory.SESSION_TIMEOUT_MS / 1000
SETTINGS: Final = {**laboratory.SETTINGS, "min.insync.replicas": "2"}
ASK_TIMEOUT_S: Final = 60.0
ELECTED: Final = re.compile(r"elected controller broker=(\d+) epoch=(\d+)")

Key = tuple[str, int]


class Seen(NamedTuple):
    """A partition as it is known."""

    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]


class Cluster(ABC):
    """A context manager; all brokers run inside, until they are stopped or killed."""

    kind: str

    def __init__(self) -> None:
        self.down: set[int] = set()

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    @property
    @abstractmethod
    def addresses(self) -> Mapping[int, Address]:
        """Where each broker listens, whether it runs or not."""

    @property
    def running(self) -> list[int]:
        """The brokers that are neither stopped nor killed."""
        return [broker for broker in BROKERS if broker not in self.down]

    @property
    def bootstrap_servers(self) -> str:
        """Of all brokers."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses.values())

    def start(self, broker: int) -> None:
        """Start one that is down; return when it is registered."""
        self._start(broker)
        self.down.discard(broker)

    def start_alone(self, broker: int) -> None:
        """As `start`, but never wait until it is in sync: others may have to start first."""
        self.start(broker)

    def stop(self, broker: int) -> None:
        """A controlled shutdown."""
        self.down.add(broker)
        self._stop(broker)

    def stop_all(self) -> None:
        """Stop all that run, one after the other."""
        for broker in reversed(self.running):
            self.stop(broker)

    def kill(self, broker: int, *, expire: bool) -> None:
        """kill -9; with `expire` its session ends at once."""
        self.down.add(broker)
        self._kill(broker, expire=expire)

    @abstractmethod
    def _start(self, broker: int) -> None: ...

    @abstractmethod
    def _stop(self, broker: int) -> None: ...

    @abstractmethod
    def _kill(self, broker: int, *, expire: bool) -> None: ...

    @abstractmethod
    def controller(self) -> int | None:
        """The controller's id, which may be that of a dead broker for a while."""

    @abstractmethod
    def live(self) -> list[int]:
        """The brokers that the others take for alive."""

    @abstractmethod
    def partitions(self) -> list[dict[Key, Seen]]:
        """All partitions, without those of topics that are being deleted: one view or several."""

    @abstractmethod
    def deletions(self, asked: Collection[str]) -> list[str]:
        """The topics that are still to be deleted, of those of which that was `asked`."""

    @abstractmethod
    def controller_epochs(self) -> list[int]:
        """In the order in which controllers were elected; complete once all are stopped."""

    @abstractmethod
    def log(self) -> str:
        """What all brokers have logged."""

    def ask(
        self,
        request: Message,
        version: int,
        *,
        broker: int | None = None,
        accepted: Collection[ErrorCode] = (),
    ) -> Any:
        """Ask a broker, or the controller, until it does what it is asked.  Raises: Refused."""

        def addresses() -> list[Address]:
            asked = self.controller() if broker is None else broker
            return [] if asked is None else [self.addresses[asked]]

        return ask_until_done(
            addresses, request, version, timeout_s=ASK_TIMEOUT_S, accepted=accepted
        )

    def unled(self) -> list[str]:
        """Partitions with an in-sync replica on a running broker, but no running leader."""
        running = set(self.running)
        return [
            f"{key[0]}-{key[1]} {seen}"
            for view in self.partitions()
            for key, seen in view.items()
            if running & {*seen.isr} and seen.leader not in running
        ]

    def out_of_sync(self, topic: str | None = None) -> list[str]:
        """Partitions (of one topic) whose ISR is not full, with those that run; or leaderless."""
        running = set(self.running)
        return [
            f"{key[0]}-{key[1]} {seen}"
            for view in self.partitions()
            for key, seen in view.items()
            if topic in (None, key[0])
            and ({*seen.isr} != {*seen.replicas} & running or seen.leader not in running)
        ]

    def disputed(self, topic: str | None = None) -> list[str]:
        """Partitions (of one topic) of which the views differ: not everyone has been told yet."""
        views = self._views()
        keys = {key for view in views for key in view if topic in (None, key[0])}
        told = {key: [view.get(key) for view in views] for key in sorted(keys)}
        return [f"{key[0]}-{key[1]} {seen}" for key, seen in told.items() if len({*seen}) > 1]

    def _views(self) -> list[dict[Key, Seen]]:
        """What is known of partitions, and what each broker tells of them."""
        return self.partitions()

    def settle(self, topic: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until all that run are registered, the ISRs (of one topic) full, and all agree."""
        missing: list[str] = []

        def settled() -> bool:
            live = self.live()
            if live != self.running:
                missing[:] = [f"live are {live}"]
            else:
                missing[:] = self.out_of_sync(topic) or self.disputed(topic)
            return not missing

        until(settled, lambda: missing, timeout_s)

    def told(self) -> list[dict[Key, Seen]]:
        """All partitions, as each broker that runs tells clients."""
        return [
            {
                (topic, int(partition)): Seen(
                    tuple(found["replicas"]), found["leader"], tuple(found["isr"])
                )
                for topic, partitions in view["topics"].items()
                for partition, found in partitions.items()
            }
            for view in self._metadata()
        ]

    def _metadata(self) -> list[dict[str, Any]]:
        return [metadata(self.addresses[broker]) for broker in self.running]

    def leader(self, topic: str, partition: int) -> int:
        """Who leads, or -1."""
        seen = self.partitions()[0].get((topic, partition))
        return -1 if seen is None else seen.leader


class Embedded(Cluster):
    """In one child process, with a store that only they can read."""

    kind = "embedded"

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__()
        self._brokers = Broker(
            brokers=len(BROKERS), data_dir=directory / "data", settings={**SETTINGS, **settings}
        )
        self.data_dir = directory / "data"
        self._log_path = directory / "broker.out"

    def __enter__(self) -> Self:
        self._brokers.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._log_path.write_text(self.log())  # pytest keeps it
        self._brokers.close()

    @property
    def addresses(self) -> Mapping[int, Address]:
        return {broker: self._brokers.address(broker) for broker in BROKERS}

    def stop_all(self) -> None:
        self._brokers.stop()
        self.down.update(BROKERS)

    def _start(self, broker: int) -> None:
        self._brokers.start(broker)

    def start_alone(self, broker: int) -> None:
        self._brokers.start(broker, in_sync=False)
        self.down.discard(broker)

    def _stop(self, broker: int) -> None:
        self._brokers.stop(broker)

    def _kill(self, broker: int, *, expire: bool) -> None:
        self._brokers.kill(broker, expire=expire)

    def controller(self) -> int | None:
        told = self._metadata()[-1]["controller"]
        return None if told == -1 else int(told)

    def live(self) -> list[int]:
        told = [view["brokers"] for view in self._metadata()]
        return sorted(set[int]().union(*told)) if all(t == told[0] for t in told) else []

    def partitions(self) -> list[dict[Key, Seen]]:
        return self.told()

    def deletions(self, asked: Collection[str]) -> list[str]:
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in asked
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=True)
        answer = self.ask(request, 7, accepted=[ErrorCode.TOPIC_ALREADY_EXISTS])
        return [topic.name for topic in answer.topics if topic.error_code]

    def controller_epochs(self) -> list[int]:
        return [int(epoch) for _, epoch in ELECTED.findall(self.log())]

    def left_in_store(self, prefix: str) -> list[str]:
        """The paths of nodes that the store kept; all brokers have to be stopped."""
        journal = SqliteJournal(self.data_dir / STORE_FILE)
        try:
            return [path for path, _ in journal.open().nodes if path.startswith(prefix)]
        finally:
            journal.close()

    def log(self) -> str:
        return self._brokers.log


class ZooKeeper(Cluster):
    """With a process each; told of by ZooKeeper."""

    kind = "zookeeper"

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__()
        self.lab = laboratory.Cluster(
            "odradek",
            BROKERS,
            directory=directory,
            history=directory / "history.jsonl",
            settings={**SETTINGS, **settings},
        )

    def __enter__(self) -> Self:
        try:
            self.lab.start_zookeeper()
            self.lab.start()
        except BaseException:
            self.lab.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.lab.__exit__(kind, error, traceback)

    @property
    def addresses(self) -> Mapping[int, Address]:
        return self.lab.addresses()

    def _start(self, broker: int) -> None:
        self.lab.start(broker)

    def _stop(self, broker: int) -> None:
        self.lab.stop(broker)

    def _kill(self, broker: int, *, expire: bool) -> None:
        self.lab.kill(broker, expire=expire)

    @contextmanager
    def paused(self, broker: int) -> Iterator[None]:
        """It stands still inside (SIGSTOP)."""
        self.down.add(broker)
        self.lab.pause(broker)
        try:
            yield
        finally:
            self.lab.resume(broker)
            self.down.discard(broker)

    def controller(self) -> int | None:
        return self.lab.controller()

    def live(self) -> list[int]:
        return self.lab.live()

    def partitions(self) -> list[dict[Key, Seen]]:
        tree = self.lab.tree()
        # It was not read at once. Of a topic that is asked about now nothing was taken away yet:
        # the request comes before that, and goes after the topic.
        deleting = self.lab.children(DELETIONS.rstrip("/"))
        topics = set(self.lab.children(TOPICS.rstrip("/"))) - {*deleting}
        found = {}
        for path, node in tree.items():
            topic = path.removeprefix(TOPICS)
            if not path.startswith(TOPICS) or "/" in topic or topic not in topics:
                continue
            for partition, replicas in node.json["partitions"].items():
                state = tree.get(f"{path}/partitions/{partition}/state")
                if state is not None:
                    seen = Seen(tuple(replicas), state.json["leader"], tuple(state.json["isr"]))
                    found[topic, int(partition)] = seen
        return [found]

    def _views(self) -> list[dict[Key, Seen]]:
        # What stands in ZooKeeper the brokers are still to hear of from the controller.
        return [*self.partitions(), *self.told()]

    def deletions(self, asked: Collection[str]) -> list[str]:
        return [path for path in self.lab.tree() if path.startswith(DELETIONS)]

    def controller_epochs(self) -> list[int]:
        elected = [(int(e), int(b)) for b, e in ELECTED.findall(self.log())]
        return [epoch for epoch, _ in sorted(elected)]

    def log(self) -> str:
        files = sorted(self.lab.directory.glob("broker-*/broker.out"))
        return "".join(file.read_text(errors="replace") for file in files)


KINDS: Final[Mapping[str, type[Embedded] | type[ZooKeeper]]] = {
    "embedded": Embedded,
    "zookeeper": ZooKeeper,
}
PARAMS: Final = ("embedded", pytest.param("zookeeper", marks=pytest.mark.java))
