"""`make needs` believes no download that was cut short."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.kafka import jars

ROOT: Final = Path(__file__).parent.parent
FILES: Final = (
    "Makefile",
    ".ci/packages",
    "tests/needs.py",
    "tests/kafka/jars.py",
    *(f"tests/kafka/{pom}" for pom in jars.POMS.values()),
    "tests/spark/environment.py",
)
HALF: Final = (  # as they lie there when a download is killed
    ".venv/bin/python",
    ".venv-spark-3.5/bin/python",
    ".venv-spark-4.0/bin/python",
    ".cache/jars/3.9.2/kafka-clients.jar",
    ".cache/jars/.4.3.1-tmp/kafka-clients.jar",
    ".cache/spark/connector-3.5.7/spark-sql-kafka.jar",
    ".cache/spark/connector-4.0.0/spark-sql-kafka.jar",
)
STAMPS: Final = {
    ".venv/.dev",
    ".venv-spark-3.5/.made",
    ".venv-spark-4.0/.made",
    ".cache/node/.complete",
    ".cache/go/situations",
    *(f".cache/spark/connector-{version}/.complete" for version in ("3.5.7", "4.0.0")),
}


def needs(checkout: Path) -> list[bool]:
    """Whether each download is here; Python has no packages yet, as in a new checkout."""
    done = subprocess.run(
        ["make", "--no-print-directory", "needs", f"PYTHON={sys.executable} -S"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if " MB  " in line]
    return [line.endswith(" here") for line in lines]


def keep(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.slow  # 0.5 s
def test_a_download_is_here_once_it_is_complete(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in HALF:
        keep(tmp_path / name)
    keep(tmp_path / ".cache/jars/3.9.2/.complete", "what an older pom asked for")
    assert needs(tmp_path) == [False] * 7
    for name in STAMPS:
        keep(tmp_path / name)
    for version, pom in jars.POMS.items():
        wanted = hashlib.sha256((ROOT / "tests/kafka" / pom).read_bytes()).hexdigest()
        keep(tmp_path / f".cache/jars/{version}/.complete", wanted)
    assert needs(tmp_path) == [True] * 7
