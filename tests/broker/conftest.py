"""One test suite behind both kinds of connections."""

import pytest


@pytest.fixture(params=[False, True], ids=["sockets", "streams"])
def portable(request: pytest.FixtureRequest) -> bool:
    """Whether the broker uses asyncio's transports."""
    return bool(request.param)
