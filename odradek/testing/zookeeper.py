"""An Apache ZooKeeper for a test; needs Java and ZooKeeper's jars.

The jars are those in the directory that the environment variable ODRADEK_ZOOKEEPER_JARS names (the
`libs` of a Kafka up to 3.9 will do), or those that Debian's package `zookeeper` installs.
"""

import glob
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from .errors import BrokerFailed, hides
from .ports import HeldPort

__tracebackhide__ = hides
JARS_VARIABLE: Final = "ODRADEK_ZOOKEEPER_JARS"
DEBIAN_JARS: Final = (
    "/usr/share/java/zookeeper*.jar",
    "/usr/share/java/netty*.jar",
    "/usr/share/java/slf4j*.jar",
    "/usr/share/java/metrics*.jar",
    "/usr/share/java/snappy*.jar",
)
LIFELINE: Final = (sys.executable, "-P", "-m", "odradek.testing.lifeline")
MAIN_CLASS: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
POLL_S: Final = 0.05
STOP_TIMEOUT_S: Final = 20.0


class ZooKeeper:
    """One server on a free port of this machine; later starts keep port and data."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held_port: HeldPort | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"127.0.0.1:{self._port}"

    @property
    def _port(self) -> int:
        assert self._held_port is not None, "not started"
        return self._held_port.port

    def start(self, *, timeout_s: float) -> str:
        """Start, and return the address once it serves.  Raises: BrokerFailed."""
        if self._process is not None:
            return self.address
        java = shutil.which("java")
        if java is None:
            raise BrokerFailed("zookeeper='auto' needs Java, and there is none on the PATH")
        classpath = _classpath()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._held_port = self._held_port or HeldPort()
        config = self._directory / "zoo.cfg"
        config.write_text(
            f"dataDir={self._directory / 'data'}\nclientPort={self._port}\n"
            "clientPortAddress=127.0.0.1\ntickTime=500\nmaxClientCnxns=0\n"
            "admin.enableServer=false\n4lw.commands.whitelist=ruok\n"
        )
        # A test does not need its ZooKeeper to survive a power cut.
        command = [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no"]
        with (self._directory / "zookeeper.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*LIFELINE, *command, "-cp", classpath, MAIN_CLASS, str(config)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + timeout_s
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                log_text = (self._directory / "zookeeper.log").read_text(errors="replace")
                self.stop()
                raise BrokerFailed(f"ZooKeeper did not start:\n{log_text[-2000:]}")
            time.sleep(POLL_S)
        return self.address

    def stop(self) -> None:
        """Stop it; its data is kept."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(STOP_TIMEOUT_S)

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False


def _classpath() -> str:
    directory = os.environ.get(JARS_VARIABLE)
    if directory is not None:
        if not glob.glob(os.path.join(directory, "zookeeper*.jar")):
            raise BrokerFailed(f"{JARS_VARIABLE}={directory}: there is no zookeeper*.jar")
        return os.path.join(directory, "*")
    jars = [jar for pattern in DEBIAN_JARS for jar in glob.glob(pattern)]
    if not any(os.path.basename(jar).startswith("zookeeper") for jar in jars):
        raise BrokerFailed(
            f"zookeeper='auto' needs ZooKeeper's jars: set {JARS_VARIABLE} to their directory"
        )
    return ":".join(sorted(jars))
