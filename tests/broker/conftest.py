"""One test suite behind both kinds of connections."""

import pytest

# They are no test modules, but their asserts shall explain themselves all the same.
for module in ("client", "running"):
    pytest.register_assert_rewrite(f"tests.broker.{module}")


@pytest.fixture(params=[False, True], ids=["sockets", "streams"])
def portable(request: pytest.FixtureRequest) -> bool:
    """Whether the broker uses asyncio's transports."""
    return bool(request.param)
