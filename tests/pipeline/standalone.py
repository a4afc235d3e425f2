"""A standalone cluster of Spark on this machine: a master and workers, each a process of its own.

pip's Spark has no start scripts, so they are started as those scripts do it, by `bin/spark-class`.
"""

import re
from pathlib import Path
from typing import Final, Self

import psutil

from tests.kafka.process import ServerProcess
from tests.pipeline.harness import WAIT_TIMEOUT_S
from tests.spark.environment import Spark
from tests.spark.warm import environment
from tests.support.waiting import until

DEPLOY: Final = "org.apache.spark.deploy"
MASTER_URL: Final = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED: Final = "Successfully registered with master"
START_TIMEOUT_S: Final = 120.0
END_TIMEOUT_S: Final = 60.0


class StandaloneCluster:
    """A context manager; whatever it has started has ended behind it."""

    def __init__(self, spark: Spark, directory: Path, *, workers: int = 2) -> None:
        self.spark = spark
        self.directory = directory
        self.url = ""
        self.workers: list[ServerProcess] = []
        self._wanted = workers
        self._executors: set[psutil.Process] = set()
        self._master = self._process("master", f"{DEPLOY}.master.Master", "--port", "0")

    def __enter__(self) -> Self:
        try:
            self._master.start(self._has_url, timeout_s=START_TIMEOUT_S)
            for _ in range(self._wanted):
                self.add_worker()
            until(self._all_registered, self._printed, timeout_s=START_TIMEOUT_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def add_worker(self) -> None:
        """Start a worker with one core, which need not have registered yet."""
        name = f"worker-{len(self.workers)}"
        size = ("--cores", "1", "--memory", "1g", "--port", "0")
        work = ("--work-dir", str(self.directory / name))
        worker = self._process(name, f"{DEPLOY}.worker.Worker", *size, *work, self.url)
        worker.start(lambda: True, timeout_s=START_TIMEOUT_S)
        self.workers.append(worker)

    def kill_worker(self, number: int) -> None:
        """SIGKILL a worker; its executors notice that it is gone, and end."""
        worker = self.workers[number]
        executors = executors_of(worker)
        assert executors, "it was to be killed while it has something to do"
        self._executors |= executors
        worker.kill()
        until(lambda: not any(map(lives, executors)), worker.tail, WAIT_TIMEOUT_S)

    def _process(self, name: str, *arguments: str) -> ServerProcess:
        """One of Spark's daemons: it has this machine's address only, and knows no checkout."""
        home = self.spark.home
        local = self.directory / "local"
        local.mkdir(parents=True, exist_ok=True)
        env = {
            **environment(),
            "PYTHONPATH": "",
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": self.spark.jvm_options,
            "SPARK_LOCAL_DIRS": str(local),
        }
        place = ("--host", "127.0.0.1", "--webui-port", "0")
        line = [str(home / "bin" / "spark-class"), *arguments[:1], *place, *arguments[1:]]
        return ServerProcess(line, self.directory / f"{name}.log", env)

    def _has_url(self) -> bool:
        if found := MASTER_URL.search(self._master.output.read_text(errors="replace")):
            self.url = found[1]
        return found is not None

    def _all_registered(self) -> bool:
        assert all(worker.alive for worker in self.workers), self._printed()
        logs = (worker.output.read_text(errors="replace") for worker in self.workers)
        return all(REGISTERED in log for log in logs)

    def _printed(self) -> str:
        return "\n".join(process.tail() for process in (self._master, *self.workers))

    def _end(self) -> None:
        for worker in self.workers:
            if worker.alive:
                self._executors |= executors_of(worker)
        for process in (*self.workers, self._master):
            process.kill()
        try:
            until(
                lambda: not any(map(lives, self._executors)),
                lambda: f"executors outlive their worker: {self._executors}",
                timeout_s=END_TIMEOUT_S,
            )
        finally:
            for executor in filter(lives, self._executors):
                executor.kill()


def executors_of(worker: ServerProcess) -> set[psutil.Process]:
    """The JVMs that a worker has started, and what they have started."""
    return set(psutil.Process(worker.pid).children(recursive=True))


def lives(process: psutil.Process) -> bool:
    """Whether a process has not ended; an orphan that nobody waits for has."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
