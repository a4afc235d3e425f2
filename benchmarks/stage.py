"""The stage of a run: the shared brokers, their topics, and directories that do not outlive it."""

import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

from . import brokers, spread, topics
from .brokers import Kind, RunningBroker
from .certificates import Certificates
from .measure import Scale
from .spread import Spread
from .topics import Filling


class RunStage:
    """Both brokers run side by side, but only one of them is loaded at a time.

    They are started once and serve all rounds, so Kafka's code is compiled and warm after the
    first, uncounted one.  Each sample writes to a topic of its own; after it the topic is deleted
    and the disk is synced, so that nobody pays for another's dirty pages.
    """

    def __init__(self, scale: Scale, root: Path | None = None) -> None:
        self._scale = scale
        self._root = Path(tempfile.mkdtemp(prefix="odradek-bench-", dir=root))
        self._certificates: Certificates | None = None
        self._numbers = itertools.count(1)
        self._brokers: dict[Kind, RunningBroker] = {}
        self._fillings: dict[Kind, Filling] = {}
        self._spreads: dict[tuple[Kind, int], Spread] = {}
        self._topics: list[tuple[RunningBroker, str]] = []
        self._directories: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self._brokers.values():
            broker.stop()
        shutil.rmtree(self._root, ignore_errors=True)

    @property
    def scale(self) -> Scale:
        """How much work to do."""
        return self._scale

    @property
    def certificates(self) -> Certificates:
        """Those of the shared brokers, which also listen for TLS."""
        if self._certificates is None:
            self._certificates = Certificates.make(self._root)
        return self._certificates

    def broker(self, kind: Kind) -> RunningBroker:
        """The shared broker of this kind.  Raises: StartFailed."""
        if kind not in self._brokers:
            self._brokers[kind] = brokers.start(kind, self._root / kind.value, self.certificates)
        return self._brokers[kind]

    def filled(self, kind: Kind) -> Filling:
        """A topic with 1 KiB records in batches of 16 KiB, written when first asked for."""
        if kind not in self._fillings:
            address = self.broker(kind).address
            topic = topics.create(address, "filled")
            self._fillings[kind] = topics.fill(
                address, topic, size_bytes=self._scale.fill_bytes, batch_size_bytes_max=16 << 10
            )
            os.sync()
        return self._fillings[kind]

    def spread(self, kind: Kind, value_size_bytes: int) -> Spread:
        """A topic for Spark, written when first asked for."""
        key = kind, value_size_bytes
        if key not in self._spreads:
            self._spreads[key] = spread.fill(
                self.broker(kind).address,
                f"spread-{value_size_bytes}",
                records=self._scale.fill_bytes // value_size_bytes,
                value_size_bytes=value_size_bytes,
            )
            os.sync()
        return self._spreads[key]

    def new_topic(self, kind: Kind) -> str:
        """A topic that lives until `settle`."""
        broker = self.broker(kind)
        topic = topics.create(broker.address, f"bench-{next(self._numbers)}")
        self._topics.append((broker, topic.name))
        return topic.name

    def directory(self) -> Path:
        """An empty directory that lives until `settle`."""
        directory = self._root / f"own-{next(self._numbers)}"
        directory.mkdir()
        self._directories.append(directory)
        return directory

    def settle(self) -> None:
        """After a sample: remove what it left, and let the disk finish."""
        while self._topics:
            broker, name = self._topics.pop()
            topics.delete(broker.address, name)
        while self._directories:
            shutil.rmtree(self._directories.pop(), ignore_errors=True)
        os.sync()
