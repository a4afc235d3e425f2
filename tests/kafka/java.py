"""Java programs of the tests: Kafka's own tools, and one-file programs of ours in `programs/`.

Ours are compiled once per jar set and source text into `.cache/classes/`.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from .jars import CACHE, classpath

PROGRAMS: Final = Path(__file__).parent / "programs"
TIMEOUT_S: Final = 100.0
# Short-lived programs: no optimizing compiler, one collector thread.
QUICK: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# Both logging bindings (3.9: reload4j, 4.3: slf4j-simple) say only what went wrong.
QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
LOG4J_1: Final = """log4j.rootLogger=ERROR, err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%p %m (%c)%n
"""

# Where the tools moved between the two versions.
TOOLS: Final = {
    "TopicCommand": ("org.apache.kafka.tools.TopicCommand",) * 2,
    "ConfigCommand": ("kafka.admin.ConfigCommand",) * 2,
    "ConsoleProducer": ("kafka.tools.ConsoleProducer", "org.apache.kafka.tools.ConsoleProducer"),
    "ConsoleConsumer": ("org.apache.kafka.tools.consumer.ConsoleConsumer",) * 2,
    "GetOffsetShell": ("org.apache.kafka.tools.GetOffsetShell",) * 2,
    "ProducerPerformance": ("org.apache.kafka.tools.ProducerPerformance",) * 2,
    "VerifiableProducer": ("org.apache.kafka.tools.VerifiableProducer",) * 2,
    "DumpLogSegments": ("kafka.tools.DumpLogSegments", "org.apache.kafka.tools.DumpLogSegments"),
    "LogDirsCommand": ("org.apache.kafka.tools.LogDirsCommand",) * 2,
    "ConsumerGroupCommand": ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",) * 2,
    "ConsumerPerformance": ("org.apache.kafka.tools.ConsumerPerformance",) * 2,
    "DeleteRecordsCommand": ("org.apache.kafka.tools.DeleteRecordsCommand",) * 2,
    "VerifiableConsumer": ("org.apache.kafka.tools.VerifiableConsumer",) * 2,
    "ReassignPartitionsCommand": ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand",) * 2,
}


class JavaFailed(Exception):
    """A program ended with an exit code other than 0; the message ends with what it printed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a finished program left behind."""

    exit_code: int
    stdout: str
    stderr: str


def tool_class(version: str, tool: str) -> str:
    """The main class of one of Kafka's command-line tools."""
    return TOOLS[tool][0 if version.startswith("3.") else 1]


def run_tool(
    version: str, tool: str, *arguments: str, stdin: bytes = b"", check: bool = True
) -> Ended:
    """Run one of Kafka's command-line tools to its end.  Raises: JavaFailed, JarsMissing."""
    command = command_line(version, tool_class(version, tool), *arguments)
    return _run(command, stdin=stdin, check=check)


def run_program(
    version: str, program: str, *arguments: str, stdin: bytes = b"", check: bool = True
) -> Ended:
    """Run `programs/<program>.java` with one version's jars.  Raises: JavaFailed, JarsMissing."""
    return _run(program_command(version, program, *arguments), stdin=stdin, check=check)


def program_command(version: str, program: str, *arguments: str) -> list[str]:
    """The command line of `programs/<program>.java`, compiled.  Raises: JavaFailed, JarsMissing."""
    return command_line(version, program, *arguments, classes=compiled(version, program))


def command_line(
    version: str, main_class: str, *arguments: str, classes: Path | None = None
) -> list[str]:
    """The command line of any class; `classes` is a folder put before the jars."""
    path = classpath(version)
    if classes is not None:
        path = f"{classes}{os.pathsep}{path}"
    log_config = f"-Dlog4j.configuration=file:{_log_config()}"
    return ["java", *QUICK, QUIET, log_config, "-cp", path, main_class, *arguments]


def compiled(version: str, program: str) -> Path:
    """The folder with the class files of `programs/<program>.java`, compiled if need be."""
    source = PROGRAMS / f"{program}.java"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    target = CACHE / "classes" / f"{program}-{version}-{digest}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{program}-", dir=target.parent))
    try:
        javac = ["javac", "-Xlint:all,-path", "-Werror", "-proc:none", "-d", str(fresh)]
        _run([*javac, "-cp", classpath(version), str(source)])
        if not target.exists():
            fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


class ToolRunner:
    """One JVM that runs tools one after another, through `Tools.java`; a context manager.

    For tools that keep nothing in static fields: not for the console consumer, which counts there.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        self._process = subprocess.Popen(
            program_command(version, "Tools"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, tool: str, *arguments: str, check: bool = True) -> Ended:
        """As `run_tool`.  Raises: JavaFailed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [tool_class(self.version, tool), *arguments]
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        if len(answer) != 3:
            raise JavaFailed(f"the JVM of the tools ended in {words}")
        stdout, stderr = (base64.b64decode(text[1:]).decode() for text in answer[1:])
        ended = Ended(int(answer[0]), stdout, stderr)
        if check and ended.exit_code != 0:
            raise JavaFailed(f"{words} ended with {ended.exit_code}\n{stdout}\n{stderr}")
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _run(command: Sequence[str], *, stdin: bytes = b"", check: bool = True) -> Ended:
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S)
    ended = Ended(
        done.returncode,
        done.stdout.decode(errors="surrogateescape"),
        done.stderr.decode(errors="replace"),
    )
    if check and ended.exit_code != 0:
        tail = "\n".join((ended.stdout + ended.stderr).splitlines()[-40:])
        raise JavaFailed(f"{command[0]} ended with {ended.exit_code}: {command[-8:]}\n{tail}")
    return ended


def _log_config() -> Path:
    path = CACHE / "log4j-quiet.properties"
    if not path.exists() or path.read_text() != LOG4J_1:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(LOG4J_1)
        fresh.replace(path)
    return path
