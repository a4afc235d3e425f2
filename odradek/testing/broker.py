"""`Broker`: one Odradek broker for as long as a test needs it."""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, overload

from .admin import delete_all_topics
from .child import ChildBroker
from .client_configs import (
    ClientConfig,
    ClientName,
    PropertiesConfig,
    PythonClientConfig,
    SparkConfig,
    client_config,
)
from .errors import BrokerFailed
from .ready import Ready

if TYPE_CHECKING:
    from .in_process import InProcessBroker

START_TIMEOUT_S: Final = 15.0
RESET_TIMEOUT_S: Final = 10.0
# A test has few members, and no time to wait for more of them.
QUICK_GROUPS: Final = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
}
OWN_SETTINGS: Final = {"listeners": "the port is always a free one", "log.dirs": "give data_dir"}


class Broker:
    """A broker on a free port of this machine; a context manager, sync or async.

    It runs in a child process, or with `in_process=True` on a thread of its own. Without
    `data_dir` its files are in a temporary directory and go when it is closed; a directory that
    is given stays. `settings` are Kafka's: `{"num.partitions": 3}`.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, object] | None = None,
        data_dir: str | Path | None = None,
        in_process: bool = False,
        brokers: int = 1,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        """Raises: ValueError."""
        if brokers != 1:
            raise ValueError(f"brokers={brokers}: this version of Odradek starts one broker only")
        given = {name: _text(value) for name, value in (settings or {}).items()}
        self._settings = {**QUICK_GROUPS, **given}
        for name, hint in OWN_SETTINGS.items():
            if name in self._settings:
                raise ValueError(f"odradek.testing.Broker sets {name} itself: {hint}")
        self._given_data_dir = None if data_dir is None else Path(data_dir).absolute()
        self._in_process = in_process
        self._start_timeout_s = start_timeout_s
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._runner: ChildBroker | InProcessBroker | None = None
        self._ready: Ready | None = None
        self._last_log = ""

    def __repr__(self) -> str:
        return f"<Broker {self.bootstrap_servers if self.running else 'not running'}>"

    # -- starting and stopping

    def start(self) -> None:
        """Start it, and return once it serves; later starts keep port and files.

        Raises: BrokerFailed.
        """
        if self.running:
            return
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(
                prefix="odradek-", ignore_cleanup_errors=True
            )
        if self._runner is None:
            self._runner = self._new_runner(Path(self._scratch.name))
        try:
            self._ready = self._runner.start(
                port=0 if self._ready is None else self.port,
                data_dir=self.data_dir,
                settings=self._settings,
            )
        except BrokerFailed:
            if self._ready is None:  # a first start leaves nothing behind
                self._clean_up()
            raise

    def stop(self) -> None:
        """Stop it cleanly and keep its files.  Raises: BrokerFailed."""
        if self._runner is not None:
            self._runner.stop()

    def kill(self) -> None:
        """End it as a crash would, with SIGKILL; `start` brings it back.

        Raises: RuntimeError for a broker in this process.
        """
        if self._runner is not None:
            self._runner.kill()

    def restart(self) -> None:
        """Stop it, if it runs, and start it again on the same port and files.

        Raises: BrokerFailed.
        """
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it and remove its files, unless their directory was given.  Raises: BrokerFailed."""
        try:
            self.stop()
        finally:
            self._clean_up()

    def reset(self) -> None:
        """Delete every topic, and start the broker if it does not run.  Raises: BrokerFailed."""
        self.start()
        delete_all_topics((self.host, self.port), timeout_s=RESET_TIMEOUT_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await _beside_the_loop(self.start, undo=self.close)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await _beside_the_loop(self.close)

    # -- what a test wants to know

    @property
    def running(self) -> bool:
        """Whether it is there; it may have ended on its own."""
        return self._runner is not None and self._runner.running

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"

    @property
    def host(self) -> str:
        """The address it listens on."""
        return next(iter(self._told.addresses.values()))[0]

    @property
    def port(self) -> int:
        """The port it listens on, the same over restarts."""
        return next(iter(self._told.addresses.values()))[1]

    @property
    def broker_id(self) -> int:
        """Kafka's broker.id."""
        return next(iter(self._told.addresses))

    @property
    def startup_ms(self) -> int:
        """From the start of its process until it served, at the last start."""
        return self._told.startup_ms

    @property
    def pid(self) -> int | None:
        """The child's process id; None in this process or if it does not run."""
        return None if self._runner is None else self._runner.pid

    @property
    def data_dir(self) -> Path:
        """Where its files are.  Raises: RuntimeError before the start of a temporary one."""
        if self._given_data_dir is not None:
            return self._given_data_dir
        if self._scratch is None:
            raise RuntimeError("the broker has no directory: it is not started")
        return Path(self._scratch.name) / "data"

    @property
    def log(self) -> str:
        """What the child logged; in this process it logs to `logging` as everybody else."""
        return self._last_log if self._runner is None else self._runner.log

    @overload
    def client_config(self, client: Literal["kafka-python", "aiokafka"]) -> PythonClientConfig: ...
    @overload
    def client_config(self, client: Literal["confluent", "java"]) -> PropertiesConfig: ...
    @overload
    def client_config(self, client: Literal["spark"]) -> SparkConfig: ...

    def client_config(self, client: ClientName) -> ClientConfig:
        """What to give to a client so that it reaches this broker, in that client's words.

        Keyword arguments for kafka-python and aiokafka, a dictionary for confluent-kafka,
        properties for Java, options for a Spark reader or writer.

        Raises: ValueError for a client that is not known.
        """
        return client_config(client, self.bootstrap_servers)

    @property
    def _told(self) -> Ready:
        if self._ready is None:
            raise RuntimeError("the broker is not started")
        return self._ready

    def _new_runner(self, scratch: Path) -> "ChildBroker | InProcessBroker":
        if not self._in_process:
            return ChildBroker(scratch / "broker.log", start_timeout_s=self._start_timeout_s)
        from .in_process import InProcessBroker

        return InProcessBroker(start_timeout_s=self._start_timeout_s)

    def _clean_up(self) -> None:
        if self._runner is not None:
            self._last_log = self._runner.log
            self._runner = None
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None
        self._ready = None


def _text(value: object) -> str:
    """A setting as it would stand in server.properties."""
    return str(value).lower() if isinstance(value, bool) else str(value)


async def _beside_the_loop(
    call: Callable[[], None], *, undo: Callable[[], None] | None = None
) -> None:
    """Run a blocking call in a thread; under another library than asyncio, right here.

    A cancelled wait does not stop the thread: `undo` then follows once it is through.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        call()
        return
    task = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        if undo is not None:
            then = undo
            task.add_done_callback(lambda _: then())
        raise
