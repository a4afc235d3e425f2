"""Java programs of the tests: Kafka's own tools, and one-file programs of ours in `programs/`.

Ours are compiled once per jar set and source text into a jar in `.cache/programs/`; those in
`programs/<version>/` use what only that version has.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Self

from .jars import CACHE, classpath
from .jvm import quick

PROGRAMS: Final = Path(__file__).parent / "programs"
TIMEOUT_S: Final = 100.0
HEAP: Final = "-Xmx256m"
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
    "AclCommand": ("kafka.admin.AclCommand", "org.apache.kafka.tools.AclCommand"),
    "TransactionsCommand": ("org.apache.kafka.tools.TransactionsCommand",) * 2,
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
    version: str,
    tool: str,
    *arguments: str,
    stdin: bytes = b"",
    check: bool = True,
    jvm_options: Sequence[str] = (),
) -> Ended:
    """Run one of Kafka's command-line tools to its end.  Raises: JavaFailed, JarsMissing."""
    java, *rest = command_line(version, tool_class(version, tool), *arguments)
    command = [java, *jvm_options, *rest]
    return _run(command, stdin=stdin, check=check)


def run_program(
    version: str, program: str, *arguments: str, stdin: bytes = b"", check: bool = True
) -> Ended:
    """Run one of our programs with one version's jars.  Raises: JavaFailed, JarsMissing."""
    return _run(command_line(version, program, *arguments), stdin=stdin, check=check)


def command_line(version: str, main_class: str, *arguments: str) -> list[str]:
    """The command line of a class of Kafka's, or of ours.  Raises: JavaFailed, JarsMissing."""
    path = tools_classpath(version)
    options = [HEAP, *quick(f"tools-{version}", path), QUIET]
    log_config = f"-Dlog4j.configuration=file:{_log_config()}"
    return ["java", *options, log_config, "-cp", path, main_class, *arguments]


def tools_classpath(version: str) -> str:
    """The same for all programs, as their archive of classes demands."""
    return f"{classpath(version)}{os.pathsep}{compiled(version)}"


@cache
def compiled(version: str) -> Path:
    """The jar of our programs for one version, compiled if need be.  Raises: as above."""
    sources = sorted([*PROGRAMS.glob("*.java"), *(PROGRAMS / version).glob("*.java")])
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    target = CACHE / "programs" / f"{version}-{digest}.jar"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=target.parent) as name:
        fresh = Path(name)
        javac = ["javac", "-Xlint:all,-path", "-Werror", "-proc:none", "-d", str(fresh / "classes")]
        _run([*javac, "-cp", classpath(version), *map(str, sources)])
        jar = shutil.make_archive(str(fresh / "programs"), "zip", fresh / "classes")
        if not target.exists():
            Path(jar).rename(target)
    return target


class ToolRunner:
    """One JVM that runs tools one after another, through `Tools.java`; a context manager.

    Not for tools that keep something in static fields, as the console consumer counts there, or
    that finish in the JVM's own shutdown hooks, as the verifiable producer does.
    The JVM is started when it is first needed.  It ends with this process, however that ends.
    """

    def __init__(self, version: str, *, jvm_options: Sequence[str] = ()) -> None:
        self.version = version
        self.jvm_options = jvm_options
        self._process: subprocess.Popen[str] | None = None

    def run(self, tool: str, *arguments: str, stdin: bytes = b"", check: bool = True) -> Ended:
        """As `run_tool`.  Raises: JavaFailed, JarsMissing."""
        words = [tool_class(self.version, tool), *arguments]
        try:
            answer = self._ask([base64.b64encode(stdin).decode(), *words])
        except BaseException:
            self.close()  # its answer would be taken for the next one's
            raise
        if len(answer) != 3:
            self.close()
            raise JavaFailed(f"the JVM of the tools ended in {words}")
        stdout, stderr = (base64.b64decode(text[1:]).decode() for text in answer[1:])
        ended = Ended(int(answer[0]), stdout, stderr)
        if check and ended.exit_code != 0:
            raise JavaFailed(f"{words} ended with {ended.exit_code}\n{stdout}\n{stderr}")
        return ended

    def _ask(self, words: Sequence[str]) -> list[str]:
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join(words) + "\n")
        process.stdin.flush()
        return process.stdout.readline().split()

    def _start(self) -> subprocess.Popen[str]:
        java, *rest = command_line(self.version, "Tools")
        return subprocess.Popen(
            [java, *self.jvm_options, *rest],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def finish(self) -> None:
        """Let the JVM end by itself, if it runs."""
        if self._process is not None:
            self._process.communicate(timeout=TIMEOUT_S)

    def close(self) -> None:
        """Kill the JVM, if it runs; the next tool starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # of what it has not read
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _run(command: Sequence[str], *, stdin: bytes = b"", check: bool = True) -> Ended:
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S)
    ended = Ended(
        done.returncode,
        done.stdout.decode(errors="surrogateescape"),
        done.stderr.decode(errors="replace"),
    )
    if check and ended.exit_code != 0:
        tail = "\n".join((ended.stdout + ended.stderr).splitlines()[-40:])
        raise JavaFailed(f"{command[0]} ended with {ended.exit_code}: {_shown(command)}\n{tail}")
    return ended


def _shown(command: Sequence[str]) -> list[str]:
    """What is not the same in all commands: without the class path and what stands before it."""
    return list(command[command.index("-cp") + 2 :])


def _log_config() -> Path:
    path = CACHE / "log4j-quiet.properties"
    if not path.exists() or path.read_text() != LOG4J_1:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(LOG4J_1)
        fresh.replace(path)
    return path
