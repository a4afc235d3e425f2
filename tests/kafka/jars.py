"""Apache Kafka's jars, fetched once with Maven into `.cache/jars/<version>/`.

`python -m tests.kafka.jars` fetches those of both versions and prints where they are; those of
Kafka Streams are fetched by the test that needs them. What is fetched stands in `pom-*.xml`. Maven
gets a repository folder of its own, because a half-filled `~/.m2` (poms without jars) would make
Spark's resolver fail later.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache"
VERSIONS: Final = ("3.9.2", "4.3.1")
STREAMS: Final = "streams-3.9.2"
POMS: Final = {
    "3.9.2": "pom-3.9.xml",
    "4.3.1": "pom-4.3.xml",
    STREAMS: "pom-streams-3.9.xml",
}
STAMP: Final = ".complete"


class JarsMissing(Exception):
    """The jars are not there and cannot be fetched; the message says what to do."""


def jars_dir(version: str) -> Path:
    """The folder of one version's jars, whether they are there or not."""
    return CACHE / "jars" / version


def present(version: str) -> bool:
    """Whether the jars that the pom asks for today were fetched completely."""
    stamp = jars_dir(version) / STAMP
    return stamp.exists() and stamp.read_text() == _pom_digest(version)


def fetch(version: str) -> Path:
    """Return the folder that holds the jars, fetching them first if need be.

    Raises: JarsMissing.
    """
    target = jars_dir(version)
    if present(version):
        return target
    if shutil.which("mvn") is None:
        raise JarsMissing("mvn is not installed; on Debian: apt-get install maven")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Fetch beside the target and rename: two runs at once, or one cut short, leave nothing half.
    fresh = Path(tempfile.mkdtemp(prefix=f".{version}-", dir=target.parent))
    try:
        _copy_dependencies(version, fresh)
        (fresh / STAMP).write_text(_pom_digest(version))
        fresh.chmod(0o755)
        if not present(version):
            shutil.rmtree(target, ignore_errors=True)
            fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


def classpath(version: str) -> str:
    """What `java -cp` wants, always in the same order.  Raises: JarsMissing."""
    return os.pathsep.join(map(str, sorted(fetch(version).glob("*.jar"))))


def _pom_digest(version: str) -> str:
    return hashlib.sha256(_pom(version).read_bytes()).hexdigest()


def _pom(version: str) -> Path:
    return Path(__file__).parent / POMS[version]


def _copy_dependencies(version: str, target: Path) -> None:
    command = [
        "mvn",
        "--batch-mode",
        "--quiet",
        f"--file={_pom(version)}",
        f"-Dmaven.repo.local={CACHE / 'm2'}",
        f"-DoutputDirectory={target}",
        "-DincludeScope=runtime",
        "dependency:copy-dependencies",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0 or not any(target.glob("kafka*.jar")):
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise JarsMissing(f"Maven could not fetch Kafka {version}:\n{tail}")


def main(versions: Sequence[str]) -> int:
    """Fetch the named versions, or all; print one line each."""
    for version in versions or VERSIONS:
        if version not in POMS:
            print(f"unknown version {version}; there are {', '.join(POMS)}", file=sys.stderr)
            return 2
        try:
            folder = fetch(version)
        except JarsMissing as error:
            print(error, file=sys.stderr)
            return 1
        count = len(list(folder.glob("*.jar")))
        print(f"kafka {version}: {count} jars in {os.path.relpath(folder)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
