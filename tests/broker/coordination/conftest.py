"""Fixtures of the coordination store's tests."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kafka.zookeeper import ZooKeeper

from odradek.broker.runtime import Runtime

# They are no test modules, but their asserts shall explain themselves all the same.
for module in ("contract", "contract_watches", "stores", "zookeepers"):
    pytest.register_assert_rewrite(f"tests.broker.coordination.{module}")


@pytest.fixture
def system() -> Iterator[Runtime]:
    """The real runtime: threads, clocks, disk."""
    runtime = Runtime.system()
    yield runtime
    runtime.close()


@pytest.fixture(scope="session")
def server() -> Iterator["ZooKeeper"]:
    """A ZooKeeper; tests keep to chroots of their own, and leave it running."""
    from tests.kafka.zookeeper import zookeeper

    with zookeeper() as running:
        yield running
