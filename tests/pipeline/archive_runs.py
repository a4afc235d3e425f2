"""One archive, and the job that is started on it again and again while something is killed."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from tests.pipeline.filling import PARTITIONS, VALUE_BYTES, fill
from tests.pipeline.harness import Commands, RunningCommand
from tests.spark.warm import WarmSpark, environment
from tests.wire.servers import Server

TOPIC: Final = "killed"
COPY: Final = "killed-again"
STEP_TIMEOUT_S: Final = 300


class ArchiveRun:
    """A topic with `count` records that is to be archived in so many batches."""

    def __init__(
        self,
        commands: Commands,
        server: Server,
        directory: Path,
        *,
        count: int,
        batches: int,
        **options: Any,
    ) -> None:
        """`options` go to each command: the master, Spark's settings."""
        self.commands = commands
        self.server = server
        self.directory = directory
        self.archive = directory / "archive"
        self.count = count
        self.batches = batches
        self._options = options
        self._running: list[RunningCommand] = []

    def fill(self) -> None:
        """Make the topic."""
        servers = self.server.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        topic = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})
        admin.create_topics([topic])[TOPIC].result(30)
        fill(servers, TOPIC, self.count)

    def start(self, **options: Any) -> RunningCommand:
        """Start the job."""
        size = ("--max-offsets-per-trigger", str(self.count // self.batches))
        return self._start((*self._archive(), *size), **options)

    def finish_in(self, spark: WarmSpark) -> None:
        """Have a running Spark archive what is left, in one batch."""
        done = spark.command(*self._archive())
        assert done.code == 0, done

    def replay(self, *arguments: str) -> RunningCommand:
        """Start to bring the records back into the topic `COPY`."""
        return self._start((*self._replay(), *arguments))

    def _archive(self) -> Sequence[str]:
        return self._line("archive", "--topics", TOPIC, "--to", str(self.archive), "--once")

    def _replay(self) -> Sequence[str]:
        archive = ("--archive", str(self.archive))
        return self._line("replay", *archive, "--topic", TOPIC, "--to-topic", COPY)

    def _audit(self) -> Sequence[str]:
        archive = ("--archive", str(self.archive))
        return self._line("audit", *archive, "--topics", TOPIC, "--against-topic", COPY)

    def _line(self, job: str, *arguments: str) -> Sequence[str]:
        return job, "--bootstrap-servers", self.server.bootstrap_servers, *arguments

    def _start(self, line: Sequence[str], **options: Any) -> RunningCommand:
        output = self.directory / f"job-{len(self._running)}.log"
        options = {**self._options, **options}
        running = self.commands.start(*line, output=output, **options)
        self._running.append(running)
        return running

    def commits(self) -> int:
        """How many there are."""
        return len(list(self.archive.glob("_odradek/commits/[0-9]*.json")))

    def wait_for_commits(self, more: int, job: RunningCommand) -> None:
        """Return when so many have come."""
        wanted = self.commits() + more
        job.wait_until(lambda: self.commits() >= wanted)

    def finish(self, job: RunningCommand) -> None:
        """Let a job come to its good end."""
        assert job.popen.wait(STEP_TIMEOUT_S * 2) == 0, job.printed

    def seen(self) -> dict[str, int]:
        """What a reader of plain Parquet sees."""
        line = [str(self.commands.spark.python), "-m", "tests.pipeline.plain_parquet"]
        done = subprocess.run(
            [*line, str(self.archive)], env=environment(), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        seen: dict[str, int] = json.loads(done.stdout)
        return seen

    def assert_exactly_once(self, spark: WarmSpark | None = None) -> None:
        """In the files, by a foreign reader; back in a topic, by the audit of all three.

        `spark` runs the commands, which need no JVM of their own then.
        """
        assert self.seen() == {
            "rows": self.count,
            "distinct": self.count,
            "last": self.count - 1,
            "wrong": 0,
            "value_bytes": self.count * VALUE_BYTES,
        }
        for line in (self._replay(), self._audit()):
            if spark is None:
                self.finish(self._start(line))
            else:
                done = spark.command(*line)
                assert done.code == 0, done

    def close(self) -> None:
        """End what still runs, the JVMs of jobs that were killed alone, too."""
        for job in self._running:
            job.kill()


def kill_job(job: RunningCommand) -> None:
    """The Python process alone: its JVM has to notice."""
    job.popen.kill()
    job.popen.wait()


def kill_driver(job: RunningCommand) -> None:
    """Spark's JVM: the job ends by itself, with one sentence."""
    # Its only child; the JVM's own, such as a chmod, come and go while one looks at them.
    (java,) = psutil.Process(job.popen.pid).children()
    assert java.name() == "java"
    java.kill()
    assert job.popen.wait(STEP_TIMEOUT_S) == 2, job.printed
    # Not always the last line: py4j's other threads may yet log what became of their calls.
    lines = job.printed.splitlines()
    assert [line for line in lines if line.startswith("Error: Spark's JVM has ended")], job.printed
