"""Start a client program in a process of its own and read the one line of JSON it prints."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.kafka.jars import classpath

KAFKA_VERSION: Final = "4.3.1"
CLIENTS: Final = Path(__file__).parent / "clients"
TIMEOUT_S: Final = 300.0
# As Kafka's own scripts start their tools; only what went wrong is logged.
JAVA: Final = ("java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp")


class ProgramFailed(Exception):
    """A client program ended with an error; the message ends with what it printed."""


def run(command: list[str]) -> str:
    """Run a program to its end and return what it printed.  Raises: ProgramFailed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-12:])
        raise ProgramFailed(f"{' '.join(command[-8:])} ended with {done.returncode}\n{tail}")
    return done.stdout


def run_python(module: str, *arguments: str) -> dict[str, float]:
    """Run `benchmarks.clients.<module>`.  Raises: ProgramFailed."""
    printed = run([sys.executable, "-m", f"benchmarks.clients.{module}", *arguments])
    return {key: float(value) for key, value in json.loads(printed).items()}


def run_java_class(main_class: str, *arguments: str) -> str:
    """Run a class of Kafka's jars and return what it printed.  Raises: ProgramFailed."""
    return run([*JAVA, classpath(KAFKA_VERSION), main_class, *arguments])


def run_java_file(source: str, *arguments: str) -> dict[str, float]:
    """Run a one-file program of `clients/`.  Raises: ProgramFailed."""
    printed = run([*JAVA, classpath(KAFKA_VERSION), str(CLIENTS / source), *arguments])
    return {key: float(value) for key, value in json.loads(printed).items()}
