"""The broker that the wire tests speak to: Odradek as a child process, or Apache Kafka."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from tests.kafka.apache import BY_VERSION
from tests.kafka.process import BrokerServer, free_port

READY: Final = re.compile(
    r"^odradek ready: PLAINTEXT://(?P<host>[^:]+):(?P<port>\d+)\S* brokers?=(?P<broker>\d+)\S*"
    r" data=(?P<data>.+) startup_ms=(?P<startup_ms>[\d.]+)$",
    re.MULTILINE,
)
START_TIMEOUT_S: Final = 60.0
VERSIONS: Final = {"kafka-3.9": "3.9.2", "kafka-4.3": "4.3.1"}


class Server(Protocol):
    """What a test may do with a broker; `start` may follow `stop` or `kill`, on the same port."""

    data_dir: Path

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def pid(self) -> int: ...
    @property
    def alive(self) -> bool: ...
    @property
    def output(self) -> str: ...

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...


def serve_command(
    data_dir: Path, settings: Mapping[str, str] | None = None, *, listen: str = "127.0.0.1:0"
) -> list[str]:
    """The command line of `odradek serve`; the setting `listeners` takes the place of `listen`."""
    settings = settings or {}
    command = [sys.executable, "-m", "odradek", "serve", "--data-dir", str(data_dir)]
    if "listeners" not in settings:
        command += ["--listen", listen]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    return command


class OdradekServer(BrokerServer):
    """`odradek serve` in a child process, at each start on the same port."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        arguments: Sequence[str] = (),
    ):
        self.settings = dict(settings or {})
        self._arguments = arguments
        super().__init__(directory, "127.0.0.1", free_port())
        self.startup_ms = -1.0

    def start(self) -> None:
        """Start and return when the ready line is there.  Raises: ServerFailed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        listen = f"{self.host}:{self.port}"
        self._process.command = serve_command(self.data_dir, self.settings, listen=listen)
        self._process.command += self._arguments
        output = self._process.output
        seen_bytes = output.stat().st_size if output.exists() else 0

        def ready() -> bool:
            with output.open("rb") as printed:
                printed.seek(seen_bytes)
                line = READY.search(printed.read().decode(errors="replace"))
            if line is not None:
                self.startup_ms = float(line["startup_ms"])
            return line is not None

        self._process.start(ready, timeout_s=START_TIMEOUT_S)

    def stop(self) -> None:
        code = self._process.stop()
        assert code == 0, f"SIGTERM ended in exit code {code}\n{self.output}"

    def close(self) -> None:
        self.kill()


def make_server(target: str, directory: Path, settings: Mapping[str, str] | None = None) -> Server:
    """A broker of the kind that `--target` names, not started."""
    if target == "odradek":
        return OdradekServer(directory, settings)
    return BY_VERSION[VERSIONS[target]](directory, settings)
