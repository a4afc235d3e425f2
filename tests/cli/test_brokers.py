"""What the commands need of kafka-python: its connections are not for others to use."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("extra", ["cli", "spark", "test"])
def test_the_extra_takes_what_is_tested_and_nothing_newer(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [Requirement(line) for line in project["optional-dependencies"][extra]]
    (taken,) = [one.specifier for one in asked if one.name == "kafka-python"]
    tested = Version(version("kafka-python"))
    assert tested in taken
    assert f"{tested.major}.{tested.minor}.99" in taken
    assert f"{tested.major}.{tested.minor + 1}.0" not in taken
    assert "3.0.9" not in taken, "its create_partitions asks for an assignment of no replicas"
