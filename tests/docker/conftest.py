"""The images, built once for all tests of this room."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.docker.images import Image, build, missing, remove_containers


@dataclass(frozen=True)
class Images:
    broker: Image
    testcontainers: Image


@pytest.fixture(scope="session")
def images() -> Iterator[Images]:
    if reason := missing():
        pytest.skip(reason)
    yield Images(build(), build("testcontainers"))
    remove_containers()
