"""The servers of a test session: one for each distinct wish, each with a state to return to."""

from collections.abc import Callable, Sequence
from pathlib import Path

from .broker import Broker
from .errors import BrokerFailed, hides
from .load import load_file
from .marker import Refused, Topics, Wanted
from .snapshots import Snapshot

__tracebackhide__ = hides

Load = str | Path | Callable[[Broker], object]
"""A file of topics and records, or a function that fills the broker it is given."""


class Server:
    """A broker whose state is set before each test."""

    def __init__(self, broker: Broker, seed: Snapshot) -> None:
        self.broker = broker
        self._seed = seed
        self._made: tuple[Topics, Snapshot] | None = None
        """The last topics that tests wanted beside the seed, and the state with them."""

    @property
    def is_closed(self) -> bool:
        """Whether a test has closed the broker, as by `with odradek:`, for good."""
        return self.broker._ready is None

    def end(self) -> list[str]:
        """End a test; why rules for faults that it made have never acted.  Raises: BrokerFailed."""
        self.broker._wake()
        unused = self.broker.faults.end()
        self.leave()
        return unused

    def leave(self) -> None:
        """The test is over; who uses the broker between tests reaches it by its listeners."""
        self.broker._leave()

    def clean(self, topics: Topics) -> None:
        """Return to the seed, with these topics, for clients that come from now on.

        Raises: BrokerFailed.
        """
        if self._made is not None and self._made[0] == topics:
            self.broker._enter(self._made[1])
            return
        self.broker._enter(self._seed)
        if not topics:
            return
        if self._made is not None:
            self.broker._snapshots.drop(self._made[1])
        _create(self.broker, topics)
        self._made = topics, self.broker.snapshot()


class Servers:
    """The servers of a session, which are started when the first test wants them."""

    def __init__(self, usual: Wanted, topics: Topics, loads: Sequence[Load]) -> None:
        """`topics` and `loads` are the seed of each server."""
        self.usual = usual
        self.topics = topics
        self._loads = loads
        self._servers: dict[Wanted, Server] = {}

    def get(self, wanted: Wanted) -> Server:
        """A server as wanted, with the seed.  Raises: BrokerFailed, Refused."""
        if wanted not in self._servers or self._servers[wanted].is_closed:
            self._servers[wanted] = self._start(wanted)
        return self._servers[wanted]

    def close(self) -> None:
        """Stop all.  Raises: BrokerFailed."""
        failure = None
        for server in self._servers.values():
            try:
                server.broker.close()
            except BrokerFailed as error:
                failure = failure or error
        self._servers.clear()
        if failure is not None:
            raise failure

    def _start(self, wanted: Wanted) -> Server:
        try:
            broker = Broker(
                settings=dict(wanted.settings),
                brokers=wanted.brokers,
                tls=wanted.tls,
                sasl=wanted.sasl,
                acls=wanted.acls,
                in_process=wanted.in_process,
            )
        except ValueError as error:
            raise Refused(str(error)) from None
        broker.start()
        try:
            _create(broker, self.topics)
            for load in self._loads:
                if callable(load):
                    load(broker)
                else:
                    load_file(broker, Path(load))
            return Server(broker, broker.snapshot())
        except BaseException:
            broker.close()
            raise


def _create(broker: Broker, topics: Topics) -> None:
    for name, partitions in topics:
        broker.topics.create(name, partitions=partitions)
