"""How the JVMs of the tests start: soon, since they live for seconds.

They do without the optimizing compiler and with one collector thread, and they map an archive of
the classes that a JVM of their kind has loaded before (class-data sharing), which halves a start.
`python -m tests.kafka.classes` writes the archives; a JVM starts without, only later.
"""

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from .jars import CACHE

ARCHIVES: Final = CACHE / "shared-classes"
QUICK: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    # A JVM that its archive does not fit would say so among what a tool prints.
    "-Xlog:disable",
)


def quick(kind: str, class_path: str) -> list[str]:
    """Options of a JVM of this kind with this class path."""
    found = archive(kind, class_path)
    return [*QUICK, f"-XX:SharedArchiveFile={found}"] if found.exists() else [*QUICK]


@cache
def archive(kind: str, class_path: str) -> Path:
    """Where the classes are kept for this Java and these jars, whether they are there or not."""
    stats = [(jar, os.stat(jar)) for jar in class_path.split(os.pathsep)]
    jars = [f"{jar} {stat.st_size} {stat.st_mtime_ns}" for jar, stat in stats]
    known = "\n".join([_java_version(), *QUICK, *jars])
    return ARCHIVES / f"{kind}-{hashlib.sha256(known.encode()).hexdigest()[:16]}.jsa"


@cache
def _java_version() -> str:
    return subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
