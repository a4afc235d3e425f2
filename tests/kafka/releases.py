"""Which APIs and versions brokers of each release of Kafka list, as told by the release's own jar.

`python -m tests.kafka.releases` prints the table of `broker/handlers/releases.py`.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from odradek.broker.handlers import APIS, Need

from .jars import CACHE, JarsMissing, fetch

POM: Final = Path(__file__).parent / "pom-clients.xml"
PROGRAM: Final = Path(__file__).parent / "programs" / "releases" / "Listed.java"
PATCHES: Final = {
    "0.11": "0.11.0.3",
    "1.0": "1.0.2",
    "1.1": "1.1.1",
    "2.0": "2.0.1",
    "2.1": "2.1.1",
    "2.2": "2.2.2",
    "2.3": "2.3.1",
    "2.4": "2.4.1",
    "2.5": "2.5.1",
    "2.6": "2.6.3",
    "2.7": "2.7.2",
    "2.8": "2.8.2",
    "3.0": "3.0.2",
    "3.1": "3.1.2",
    "3.2": "3.2.3",
    "3.3": "3.3.2",
    "3.4": "3.4.1",
    "3.5": "3.5.2",
    "3.6": "3.6.2",
    "3.7": "3.7.2",
    "3.8": "3.8.1",
    "3.9": "3.9.2",
    "4.0": "4.0.1",
    "4.1": "4.1.1",
    "4.2": "4.2.1",
    "4.3": "4.3.1",
}

Ranges = Mapping[int, tuple[int, int]]


def ranges_of(release: str) -> Ranges:
    """The first and last versions of each API, by key.  Raises: JarsMissing."""
    (logging,) = fetch("3.9.2").glob("slf4j-api-*.jar")
    path = os.pathsep.join(map(str, [_jar(PATCHES[release]), logging]))
    command = ["java", "-cp", path, str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    return {key: (first, last) for key, first, last in lines}


def _jar(version: str) -> Path:
    target = CACHE / "clients" / f"kafka-clients-{version}.jar"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as fresh:
        command = [
            "mvn",
            "--batch-mode",
            "--quiet",
            f"--file={POM}",
            f"-Dmaven.repo.local={CACHE / 'm2'}",
            f"-Dartifact=org.apache.kafka:kafka-clients:{version}",
            f"-DoutputDirectory={fresh}",
            "dependency:copy",
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise JarsMissing(
                f"Maven could not fetch the clients of Kafka {version}:\n{done.stdout}"
            )
        (Path(fresh) / target.name).rename(target)
    return target


def main() -> None:
    """Print each API's versions, from those releases on that changed them."""
    told = {release: ranges_of(release) for release in PATCHES}
    for api in APIS.values():
        if api.need is Need.BROKER or not api.is_advertised:
            continue
        by_release = [(told[release].get(api.key), release) for release in PATCHES]
        changes = [
            (next(same)[1], versions) for versions, same in groupby(by_release, lambda x: x[0])
        ]
        texts = [f"{at}: {v[0]}-{v[1]}" if v else f"{at}: none" for at, v in changes]
        print(f'    {api.key}: "{", ".join(texts).removeprefix("0.11: none, ")}",  # {api.name}')


if __name__ == "__main__":
    main()
