"""Spark's Kafka connector: fetched into a folder, and for which versions it can be had."""

import re
import shutil
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from .errors import PipelineError
from .installation import CONNECTOR, NEEDED_BESIDE, Installation

MAVEN_CENTRAL: Final = "https://repo1.maven.org/maven2/org/apache/spark"
TESTED: Final = ("4.0.0", "3.5.7")
"""PySpark's versions in our tests, the newest first."""
UNRESOLVED: Final = "unresolved dependency"
"""What Ivy says where Spark cannot start without a package."""
ANSWER_TIMEOUT_S: Final = 10
OTHER_PLACES: Final = ("spark.jars.ivySettings", "spark.jars.repositories")
"""Settings by which Ivy looks elsewhere than in Maven Central."""


def package_of(spark: Installation, version: str | None = None) -> str:
    """The connector's coordinates, for the installed Spark or another version."""
    if version is None or version == spark.version:
        return spark.package
    scala = "2.12" if version.startswith("3.") else "2.13"  # of pip's pyspark
    return f"org.apache.spark:{CONNECTOR}_{scala}:{version}"


def kept(downloaded: Path, folder: Path) -> list[Path]:
    """Copy to `folder` the jars that Spark lacks, of all that Ivy has put into `downloaded`.

    Raises: PipelineError if one is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    jars = []
    for stem in (CONNECTOR, *NEEDED_BESIDE):
        # Ivy names a file GROUP_ARTIFACT-VERSION.jar.
        found = next(iter(sorted(downloaded.glob(f"*_{stem}[_-]*.jar"))), None)
        if found is None:
            raise PipelineError(f"{stem} is not among the jars that Ivy has downloaded: try again")
        jars.append(Path(shutil.copy(found, folder)).absolute())
    return jars


def ivy_folder() -> "TemporaryDirectory[str]":
    """A cache for Ivy, in which nothing else is."""
    return TemporaryDirectory(prefix="odradek-ivy-", ignore_cleanup_errors=True)


def not_downloaded(package: str, conf: Mapping[str, str]) -> str | None:
    """Why a connector cannot be had, and which can; None: Maven Central has it, or is not asked."""
    if any(name in conf for name in OTHER_PLACES):
        return None
    scala, version = re.findall(r"_([\d.]+):(.+)$", package)[0]
    try:
        if version in _complete(scala):
            return None
        others = [*_since(TESTED[0], _complete("2.13")), *_since(TESTED[1], _complete("2.12"))]
    except OSError:
        return (
            f"Spark did not start, and Maven Central, from where it downloads {package}, does not"
            f" answer: give the jars by --jars; `odradek pipeline connector` fetches them where"
            f" there is a network"
        )
    named = " and ".join(others) or "none"
    return (
        f"Maven Central does not have {package} with all that it needs: install a PySpark whose"
        f" connector it has ({named}), by pip install 'pyspark[sql]=={(others or TESTED)[0]}', or"
        f" give the jars by --jars"
    )


def _complete(scala: str) -> set[str]:
    """The versions for which Maven Central has the jars that are Spark's own.  Raises: OSError."""
    artifacts = (CONNECTOR, *(stem for stem in NEEDED_BESIDE if stem.startswith("spark-")))
    return set[str].intersection(*(_versions(f"{name}_{scala}") for name in artifacts))


def _versions(artifact: str) -> set[str]:
    url = f"{MAVEN_CENTRAL}/{artifact}/maven-metadata.xml"
    with urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT_S) as answer:
        return set(re.findall(r"<version>([\d.]+)</version>", answer.read().decode()))


def _since(first: str, versions: Iterable[str]) -> list[str]:
    """Those of the minor release of `first` that are not older, the newest first."""
    minor = first.rpartition(".")[0]
    patches = [int(one.rpartition(".")[2]) for one in versions if one.startswith(f"{minor}.")]
    oldest = int(first.rpartition(".")[2])
    return [f"{minor}.{patch}" for patch in sorted(patches, reverse=True) if patch >= oldest]
