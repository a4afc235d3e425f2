"""Fixtures of the coordination store's tests."""

from collections.abc import Iterator

import pytest

from odradek.broker.runtime import Runtime

# They are no test modules, but their asserts shall explain themselves all the same.
for module in ("contract", "contract_watches", "stores"):
    pytest.register_assert_rewrite(f"tests.broker.coordination.{module}")


@pytest.fixture
def system() -> Iterator[Runtime]:
    """The real runtime: threads, clocks, disk."""
    runtime = Runtime.system()
    yield runtime
    runtime.close()
