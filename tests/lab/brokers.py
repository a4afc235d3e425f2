"""One broker of a laboratory cluster in a process of its own: Odradek's, or Apache Kafka's."""

import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka.apache import java_command, quick_broker
from tests.kafka.process import BrokerServer, free_port, serves_metadata
from tests.kafka.zookeeper import HOST, LOG4J_1
from tests.wire.servers import serve_command

from .slow_broker import write_delays

KAFKA: Final = "3.9.2"
KAFKA_HEAP_MB: Final = 384
START_TIMEOUT_S: Final = 60.0


class Place(NamedTuple):
    """Where a broker listens, and what stands before its command."""

    host: str
    port: int
    enter: tuple[str, ...] = ()


class BrokerProcess(BrokerServer, ABC):
    """One of several; without a place it listens on loopback."""

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        settings: Mapping[str, str],
        place: Place | None = None,
    ) -> None:
        host, port, self._enter = place or Place(HOST, free_port())
        super().__init__(directory, host, port)
        self.id = broker_id
        self.settings = dict(settings)

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    def start(self) -> None:
        """Start and return when it answers Metadata and knows a controller.

        Raises: ServerFailed, JarsMissing.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process.command = [*self._enter, *self._command()]
        self._process.start(
            lambda: serves_metadata(self.host, self.port), timeout_s=START_TIMEOUT_S
        )

    def stop(self) -> int | None:
        """End it with SIGTERM: a controlled shutdown.  Returns its exit code."""
        return self._process.stop()

    def pause(self) -> None:
        """SIGSTOP: it keeps its sockets and says nothing."""
        assert self._process.popen is not None
        self._process.popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process.popen is not None
        self._process.popen.send_signal(signal.SIGCONT)

    @abstractmethod
    def _command(self) -> list[str]: ...


class OdradekBroker(BrokerProcess):
    """`odradek serve`."""

    def _command(self) -> list[str]:
        listen = f"{self.host}:{self.port}"
        command = serve_command(self.data_dir, self.settings, listen=listen)
        return [*command, "--broker-id", str(self.id)]


class SlowBroker(OdradekBroker):
    """`odradek serve` with a disk that can be made slow."""

    def delay_disk(self, **delays: float) -> None:
        """Seconds that calls take longer from now on: `read`, `write`, `fsync`; the others 0."""
        write_delays(self._delays, delays)

    @property
    def _delays(self) -> Path:
        return self.directory / "delays.json"

    def _command(self) -> list[str]:
        python, option, module, *rest = super()._command()
        assert (option, module) == ("-m", "odradek")
        return [python, "-m", "tests.lab.slow_broker", str(self._delays), *rest]


class KafkaBroker(BrokerProcess):
    """Apache Kafka 3.9.2 in ZooKeeper mode."""

    def _command(self) -> list[str]:
        log_config = self.directory / "log4j.properties"
        log_config.write_text(LOG4J_1)
        properties = {
            "broker.id": str(self.id),
            "listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "log.dirs": str(self.data_dir),
            **self.settings,
        }
        config = self.directory / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return java_command(
            KAFKA,
            "kafka.Kafka",
            str(config),
            heap_mb=KAFKA_HEAP_MB,
            log_config=log_config,
            jvm_options=quick_broker(KAFKA),
        )


KINDS: Final[dict[str, type[BrokerProcess]]] = {
    "odradek": OdradekBroker,
    "slow": SlowBroker,
    "kafka": KafkaBroker,
}
