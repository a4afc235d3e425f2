"""A real ZooKeeper 3.8.4, from the jars of Kafka 3.9.2.

`python -m tests.kafka.zookeeper` runs one until Ctrl-C.
"""

import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .jars import classpath
from .jvm import quick
from .process import ServerProcess, free_port

HOST: Final = "127.0.0.1"
JARS: Final = "3.9.2"
HEAP_MB: Final = 128
START_TIMEOUT_S: Final = 60.0
LOG4J_1: Final = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class ZooKeeper:
    """One server; `start` may follow `stop` or `kill`: same port, same files.

    Sessions last from 2 to 20 ticks.  Nothing is flushed to the disk: what is tested here survives
    a killed process, not a power cut.
    """

    def __init__(
        self,
        directory: Path,
        *,
        host: str = HOST,
        port: int | None = None,
        tick_time_ms: int = 500,
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        enter: Sequence[str] = (),
    ):
        """`settings`: more lines for zoo.cfg; `enter`: what stands before the command."""
        self.directory = directory
        self.settings = settings or {}
        self.java_options = java_options
        self.enter = enter
        self.host = host
        self.port = port or free_port()
        self.tick_time_ms = tick_time_ms
        self.process = ServerProcess(self._command(), directory / "zookeeper.out")

    @property
    def address(self) -> str:
        """The connect string."""
        return f"{self.host}:{self.port}"

    @property
    def alive(self) -> bool:
        return self.process.alive

    def start(self) -> None:
        """Start and return when it serves.  Raises: ServerFailed, JarsMissing."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "zookeeper.log4j").write_text(LOG4J_1)
        config = {
            "tickTime": str(self.tick_time_ms),
            "dataDir": str(self.directory / "zookeeper"),
            "clientPort": str(self.port),
            "clientPortAddress": self.host,
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "dump",
            **self.settings,
        }
        (self.directory / "zoo.cfg").write_text("".join(f"{k}={v}\n" for k, v in config.items()))
        self.process.start(self._serves, timeout_s=START_TIMEOUT_S)

    def stop(self) -> None:
        """End it with SIGTERM."""
        self.process.stop()

    def kill(self) -> None:
        """SIGKILL; also wakes it if it was paused."""
        self.process.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay, nobody answers."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.process.pid, signal.SIGCONT)

    def dump(self, timeout_s: float = 30.0) -> str:
        """Its sessions and their ephemeral nodes.  Raises: OSError."""
        with socket.create_connection((self.host, self.port), timeout=timeout_s) as connection:
            connection.sendall(b"dump")
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def _serves(self) -> bool:
        """It accepts connections some time before, and leaves them without an answer."""
        try:
            return "Sessions" in self.dump(timeout_s=0.25)
        except OSError:
            return False

    def _command(self) -> list[str]:
        return [
            *self.enter,
            "java",
            f"-Xmx{HEAP_MB}m",
            *quick("zookeeper", classpath(JARS)),
            "-Dzookeeper.forceSync=no",
            f"-Dlog4j.configuration=file:{self.directory / 'zookeeper.log4j'}",
            *self.java_options,
            "-cp",
            classpath(JARS),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(self.directory / "zoo.cfg"),
        ]


@contextmanager
def zookeeper(
    *,
    directory: Path | None = None,
    port: int | None = None,
    tick_time_ms: int = 500,
    settings: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
) -> Iterator[ZooKeeper]:
    """A running ZooKeeper; without `directory` its files are deleted at the end.

    Raises: ServerFailed, JarsMissing.
    """
    home = directory or Path(tempfile.mkdtemp(prefix="zookeeper-"))
    server = ZooKeeper(
        home, port=port, tick_time_ms=tick_time_ms, settings=settings, java_options=java_options
    )
    try:
        server.start()
        yield server
    finally:
        server.kill()
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)


def secure_settings(port: int, *, store: str, trust: str) -> dict[str, str]:
    """Lines for zoo.cfg: a second port for TLS with these PEM files, and logins by SASL."""
    return {
        "secureClientPort": str(port),
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": store,
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": trust,
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "want",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }


def user_option(directory: Path, username: str, password: str) -> str:
    """The option of Java for a user that may log in; writes a file."""
    jaas = directory / "zookeeper.jaas"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    jaas.write_text(f'Server {{ {module} required user_{username}="{password}"; }};')
    return f"-Djava.security.auth.login.config={jaas}"


def main() -> None:
    """Run one in the foreground."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))  # through the `with`, which ends the JVM
    with zookeeper() as server:
        print(f"ZooKeeper at {server.address}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
